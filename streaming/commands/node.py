"""`motet node`: one component of a pipeline, served to other hosts."""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path

from .output import Commands


def add(commands: Commands) -> None:
    """`motet node`."""
    command = commands.add_parser("node", help="serve one component for --runtime remote")
    command.add_argument("file", metavar="FILE", help="pipeline file")
    command.add_argument("node", metavar="NODE", help="the node of it")
    command.add_argument("--address", default="127.0.0.1:50061", help="where to listen")
    command.add_argument("--health-address", help="gRPC health in the clear; default: same port")
    command.add_argument("--cpus", type=float, help="cores that it may use; default: all")
    command.add_argument("--grace-s", type=float, default=3600.0, help="for what runs at SIGTERM")
    command.add_argument("--tls-dir", type=Path, help="ca.crt, tls.crt, tls.key")
    command.set_defaults(command=run_node)


def run_node(parsed: argparse.Namespace) -> int:
    """Serve it until SIGTERM and what runs then has ended."""
    import uvloop

    from ...components.base import Resources
    from ...components.errors import BadInput, nearest
    from ...pipelines import load
    from ...pipelines.runtimes.mux import MutualTls
    from ...pipelines.runtimes.nodeserver import NodeServer

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    graph = load(parsed.file)
    node = graph.nodes.get(parsed.node)
    if node is None:
        hint = nearest(parsed.node, list(graph.nodes))
        raise BadInput(f"{graph.name!r} has no node {parsed.node!r}; {hint}", where=parsed.file)
    cpus = parsed.cpus or node.spec.resources.cpus or float(os.cpu_count() or 1)
    resources = Resources(cpus, node.spec.resources.gpus)
    tls = MutualTls.of(parsed.tls_dir) if parsed.tls_dir else None
    server = NodeServer(node, resources, tls=tls, grace_s=parsed.grace_s)
    uvloop.run(server.serve(parsed.address, health_address=parsed.health_address))
    return 0
