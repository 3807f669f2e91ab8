"""What every runtime offers: calls of a node's component, wherever its replicas live."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from ...components.base import Context, Resources
from ...components.errors import Flaw, SpecError
from ...components.frames import Frame
from ..graph import Graph
from ..spec import NodeSpec

BUILT_FROM = ("use", "model", "options")
"""The parts of a node that make its component what it is."""


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """One replica: its state, the runs it serves now, and what its start took."""

    id: str
    state: str
    active: int
    started_s: float
    version: str = "1"


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node: its replicas, the runs that wait, and how busy its engines say they are.

    `version` is the pipeline's version that it came with; later ones may share it. `target` is
    where the replicas are that others start.
    """

    node: str
    use: str
    replicas: tuple[ReplicaStatus, ...]
    active: int
    queued: int
    concurrency: int
    utilisation: float | None = None
    refused: int = 0
    version: str = "1"
    target: str = ""


class Runtime(Protocol):
    """Runs the components of one graph."""

    async def start(self) -> None:
        """Load what is to be preloaded. Raises what a component's `load` raises."""
        ...

    async def close(self) -> None:
        """Stop everything. Idempotent."""
        ...

    def call(
        self, node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncIterator[Frame]:
        """Run a node's component on `frames`. Closing the iterator cancels the run.

        Raises:
            Overloaded: the node's queue is full or the wait in it too long.
            DeadlineExceeded: the context's deadline passed.
            ComponentFailed: the component, or the replica that ran it, died.
        """
        ...

    def status(self) -> list[NodeStatus]:
        """How the nodes are now."""
        ...

    @property
    def ready(self) -> bool:
        """Whether every node can take a call now."""
        ...

    def successor(
        self, graph: Graph, version: str, *, fresh: bool = False, targets: Mapping[str, str] = {}
    ) -> Runtime:
        """A runtime for another version of the graph, to be started while this one is open.

        Nodes that are the same in both are shared, their weights and queues too, unless `fresh`;
        each is closed with the last runtime that has it. Where others start the replicas,
        `targets` say where those of changed nodes are.

        Raises:
            SpecError: the change can't be made while running.
        """
        ...


def refuse(targets: Mapping[str, str], graph: Graph) -> None:
    """Refuse targets where the runtime itself starts the replicas.

    Raises:
        SpecError: there are some.
    """
    why = "the runtime starts its replicas itself; targets are for remote and rayservice"
    if targets:
        raise SpecError([Flaw(f"targets.{name}", why) for name in targets], file=graph.name)


def component_of(spec: NodeSpec) -> str:
    """What a replica of this node runs, in words; the options, which may be secret, by a digest."""
    options = json.dumps(spec.options, sort_keys=True, default=str)
    digest = hashlib.sha256(options.encode()).hexdigest()[:8]
    return f"{spec.use}, model {spec.model or 'none'}, options {digest}"


def share_cores(graph: Graph, cores: float) -> dict[str, Resources]:
    """What each node's replica may use: what it says, else a share of the cores that are left.

    The sum stays within the machine where nodes don't say; every engine gets a thread at least.
    """
    said = {name: node.spec.resources.cpus for name, node in graph.nodes.items()}
    silent = sum(cpus is None for cpus in said.values())
    left = max(0.0, cores - sum(cpus or 0.0 for cpus in said.values()))
    share = max(left / silent, 0.1) if silent else 0.0
    return {
        name: Resources(share if cpus is None else cpus, graph.nodes[name].spec.resources.gpus)
        for name, cpus in said.items()
    }
