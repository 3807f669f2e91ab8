"""The machine a benchmark ran on, and what the processes of a server use of it."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil


def describe() -> str:
    """Processor, cores, memory and Python in a line."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    memory = psutil.virtual_memory().total / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"


@dataclass(frozen=True, slots=True)
class Use:
    """CPU seconds and resident bytes of a process and its children, and of the whole machine."""

    cpu_s: float
    rss_bytes: int
    machine_s: float
    threads: int


def use(pid: int | None = None) -> Use:
    """What a process (None: this one) has used so far, its children included."""
    root = psutil.Process(pid)
    family = [root, *root.children(recursive=True)]
    cpu_s, rss, threads = 0.0, 0, 0
    for process in family:
        try:
            times = process.cpu_times()
            cpu_s += times.user + times.system
            rss += process.memory_info().rss
            threads += process.num_threads()
        except psutil.NoSuchProcess:
            continue
    busy = psutil.cpu_times()
    return Use(cpu_s, rss, busy.user + busy.nice + busy.system, threads)


def peak_bytes() -> int:
    """The most memory that this process has had, plus that of each of its children.

    Where the system doesn't tell a peak, what they have now.
    """
    root = psutil.Process()
    return sum(_peak(process) for process in [root, *root.children(recursive=True)])


def _peak(process: psutil.Process) -> int:
    try:
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0
