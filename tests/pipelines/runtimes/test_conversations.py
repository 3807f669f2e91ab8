"""Conversations outlive the replica that scaling takes away: their standing runs move."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from runtimes import RAY

from motet.pipelines import Graph, Pipeline
from motet.pipelines.runtimes.base import Runtime
from motet.pipelines.runtimes.growbench import grow_and_shrink
from motet.pipelines.runtimes.mux import MutualTls
from motet.pipelines.runtimes.raybench import talking
from motet.pipelines.runtimes.workers import WorkersRuntime
from motet.pipelines.spec import Scale

pytestmark = pytest.mark.timeout(120)

Serving = tuple[Callable[[Graph], Runtime], float]


def certificate(folder: Path, name: str) -> MutualTls:
    """Files of an authority of our own, and a certificate of it for a name."""
    authority = trustme.CA()
    pair = authority.issue_cert(name)
    authority.cert_pem.write_to_path(folder / "ca.crt")
    pair.private_key_pem.write_to_path(folder / "tls.key")
    pair.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    return MutualTls.of(folder)


@pytest.fixture(params=["workers", RAY])
def serving(request: pytest.FixtureRequest, tmp_path: Path) -> Serving:
    """A runtime whose replicas may drain for an hour, and how long its scaling looks back. On Ray
    there are several nodes, and certificates between them.
    """
    if request.param == "workers":
        return lambda graph: WorkersRuntime(graph, drain_s=3600.0), 0.4
    cluster: Any = request.getfixturevalue("ray_cluster")
    from motet.pipelines.runtimes.ray.serve import RayRuntime

    tls = certificate(tmp_path, "motet-bench-talk")
    return lambda graph: RayRuntime(graph, address=cluster.address, tls=tls), 2.0


async def test_conversations_outlive_the_replica_that_scaling_takes_away(serving: Serving) -> None:
    runtime, window_s = serving
    scale = Scale(max_replicas=2, concurrency=2, window_s=window_s, scale_down_delay_s=window_s)
    graph = talking(scale)
    async with Pipeline(graph, runtime(graph)) as pipeline:
        # One is kept on each replica, which is more than one replica's room is needed for.
        found = await grow_and_shrink("", pipeline, node="echo", conversations=4, stay=1)
    assert found.replicas == found.stayed == 2
    assert found.well == 2, "nothing of them was lost"
    assert found.moved == 1, "that of the replica that went has moved, the other one not"
