"""The graph of a pipeline: its file, its checks, its sessions and the runtimes that carry it."""
