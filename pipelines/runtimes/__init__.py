"""Where components run: in this process, in worker processes, or on Ray."""
