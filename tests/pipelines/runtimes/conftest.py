"""A Ray cluster of several nodes on this machine, for the tests that ask for one."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Any]:
    """A head that runs no replica and two nodes that do; each has its own raylet and store."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs ray[serve]: pip install 'motet[ray]', or `make ray`")
    # First, since it says that nothing joins a cluster by itself.
    from motet.pipelines.runtimes.rayapi import ray

    cluster_utils: Any = importlib.import_module("ray.cluster_utils")
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    shared = {"env_vars": {"PYTHONPATH": paths}, "object_store_memory": 128 * 2**20}
    cluster = cluster_utils.Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **shared}
    )
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=4, **shared)
        yield cluster
    finally:
        if ray.is_initialized():
            ray.shutdown()
        cluster.shutdown()
