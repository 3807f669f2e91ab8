"""Where components run: in this process, in processes of their own, on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..graph import Graph
    from .base import Runtime


def runtime_of(name: str, graph: Graph) -> Runtime:
    """The runtime of that name for a graph; its file, and what it needs, is imported late."""
    if name == "workers":
        from .workers import WorkersRuntime

        return WorkersRuntime(graph)
    from .local import LocalRuntime

    return LocalRuntime(graph)
