"""The heap: what was freed is given back."""

from __future__ import annotations

import ctypes
import sys

import psutil
import pytest

from motet.components.heap import trim


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heap")
def test_what_lies_between_is_given_back() -> None:
    """Blocks too small to be mapped by themselves, every other one freed: glibc keeps them all."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "malloc_trim"):
        pytest.skip("not glibc")
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
    size, process = 64 * 1024, psutil.Process()
    blocks = [libc.malloc(size) for _ in range(1600)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    for block in blocks[::2]:
        libc.free(block)
    before = process.memory_info().rss
    trim()
    after = process.memory_info().rss
    assert before - after > 30 * 1024 * 1024
    for block in blocks[1::2]:
        libc.free(block)
