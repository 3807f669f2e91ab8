"""`motet node`: one component of a pipeline, served to other hosts."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from .output import Commands

if TYPE_CHECKING:
    from ...pipelines.runtimes.nodeserver import NodeServer
    from ...pipelines.runtimes.podcost import PodCost


def add(commands: Commands) -> None:
    """`motet node`."""
    command = commands.add_parser("node", help="serve one component for --runtime remote")
    command.add_argument("file", metavar="FILE", help="pipeline file")
    command.add_argument("node", metavar="NODE", help="the node of it")
    command.add_argument("--address", default="127.0.0.1:50061", help="where to listen")
    command.add_argument(
        "--health-address", help="where to serve gRPC health, in the clear; default: none"
    )
    command.add_argument("--cpus", type=float, help="cores that it may use; default: all")
    command.add_argument("--grace-s", type=float, default=3600.0, help="for what runs at SIGTERM")
    command.add_argument("--tls-dir", type=Path, help="ca.crt, tls.crt, tls.key")
    command.add_argument(
        "--pod", metavar="NAME", help="this pod of Kubernetes: keep its deletion cost at its runs"
    )
    command.set_defaults(command=run_node)


def run_node(parsed: argparse.Namespace) -> int:
    """Serve it until SIGTERM and what runs then has ended."""
    import uvloop

    from ...components.base import Resources
    from ...components.errors import BadInput, nearest
    from ...pipelines import load
    from ...pipelines.runtimes.mux import MutualTls
    from ...pipelines.runtimes.nodeserver import NodeServer
    from ...pipelines.runtimes.podcost import PodCost
    from ..operate.logs import write_logs

    write_logs()
    graph = load(parsed.file)
    node = graph.nodes.get(parsed.node)
    if node is None:
        hint = nearest(parsed.node, list(graph.nodes))
        raise BadInput(f"{graph.name!r} has no node {parsed.node!r}; {hint}", where=parsed.file)
    cpus = parsed.cpus or node.spec.resources.cpus or float(os.cpu_count() or 1)
    resources = Resources(cpus, node.spec.resources.gpus)
    tls = MutualTls.of(parsed.tls_dir) if parsed.tls_dir else None
    server = NodeServer(node, resources, tls=tls, grace_s=parsed.grace_s)
    cost = PodCost(parsed.pod) if parsed.pod else None
    uvloop.run(_serve(server, cost, parsed.address, parsed.health_address))
    return 0


async def _serve(
    server: NodeServer, cost: PodCost | None, address: str, health_address: str | None
) -> None:
    telling = asyncio.create_task(cost.run(lambda: server.active)) if cost else None
    try:
        await server.serve(address, health_address=health_address)
    finally:
        if telling is not None:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
