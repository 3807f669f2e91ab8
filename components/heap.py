"""The process's heap: what native code has freed is given back to the system."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache


def trim() -> None:
    """Give back what lies free in the heap; some milliseconds, from any thread.

    glibc keeps what threads have freed, a heap for each: engines that take and free hundreds of
    megabytes a batch grow by what lies between. Other C libraries do as they do.
    """
    _trim()(0)


@cache
def _trim() -> Callable[[int], object]:
    found = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    return found or (lambda _: None)
