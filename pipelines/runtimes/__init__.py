"""Where components run: in this process, in processes of their own, on a cluster."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from ...components.errors import MissingRequirement

if TYPE_CHECKING:
    from ..graph import Graph
    from .base import Runtime


def runtime_of(name: str, graph: Graph) -> Runtime:
    """The runtime of that name for a graph; its file, and what it needs, is imported late.

    Raises:
        MissingRequirement: Ray isn't installed.
        SpecError: the graph has settings that Ray can't do.
    """
    if name == "ray":
        if importlib.util.find_spec("ray") is None:
            raise MissingRequirement(
                "needs ray[serve]; install the extra: pip install 'motet[ray]'", where="ray"
            )
        from .rayserve import RayRuntime

        return RayRuntime(graph)
    if name == "workers":
        from .workers import WorkersRuntime

        return WorkersRuntime(graph)
    from .local import LocalRuntime

    return LocalRuntime(graph)
