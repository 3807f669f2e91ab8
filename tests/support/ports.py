"""Loopback addresses of this process alone: a port that is free there stays free.

A port that was free on 127.0.0.1 a moment ago may be another process's by now.
"""

from __future__ import annotations

import os
import socket

_PID = os.getpid()
HOST, OTHER_HOST = (
    f"127.{high + (_PID >> 16) % 64}.{_PID >> 8 & 255}.{_PID & 255}" for high in (64, 128)
)


def free_port(host: str = HOST) -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind((host, 0))
        return one.getsockname()[1]
