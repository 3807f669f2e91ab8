"""A Ray cluster of several nodes on this machine, for the tests that ask for one."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from runtimes import serve  # noqa: F401 - a fixture


@dataclass(frozen=True)
class RayNodes:
    """Where the cluster is, and the raylets of its two nodes (the head runs no replica)."""

    address: str
    raylets: list[int]


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[RayNodes]:
    """Left again and ended with the module."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs ray[serve]: pip install 'motet[ray]', or `make ray-test`")
    # First, since it says that nothing joins a cluster by itself.
    from motet.pipelines.runtimes.ray.api import ray

    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "raycluster"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            told = next((line for line in process.stdout if line.startswith(b"{")), None)
            assert told is not None, "the cluster didn't start"
            yield RayNodes(**json.loads(told))
        finally:
            if ray.is_initialized():
                ray.shutdown()
            process.stdin.close()
