"""The runtime on Ray Serve."""
