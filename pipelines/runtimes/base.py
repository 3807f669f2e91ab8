"""What every runtime offers: calls of a node's component, wherever its replicas live."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from ...components.base import Context, Resources
from ...components.frames import Frame
from ..graph import Graph


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

    `version` is the pipeline's version that it came with; later ones may share it.
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

    def successor(self, graph: Graph, version: str, *, fresh: bool = False) -> Runtime:
        """A runtime for another version of the graph, to be started while this one is open.

        Nodes that are the same in both are shared, their weights and queues too, unless `fresh`;
        each is closed with the last runtime that has it.

        Raises:
            SpecError: the change can't be made while running.
        """
        ...


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
