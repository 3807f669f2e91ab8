"""The gRPC door: sessions, typed services, and NVIDIA Riva's speech methods."""
