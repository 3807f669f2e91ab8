"""Where components run: in this process, in processes of their own, on a cluster."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...components.errors import MissingRequirement

if TYPE_CHECKING:
    from ..graph import Graph
    from .base import Runtime


def runtime_of(
    name: str, graph: Graph, *, targets: Sequence[str] = (), tls_dir: Path | None = None
) -> Runtime:
    """The runtime of that name for a graph; its file, and what it needs, is imported late.

    `targets`, "NODE=HOST:PORT", say where "remote" finds each node; `tls_dir` holds `ca.crt`,
    `tls.crt` and `tls.key` for the connections to other hosts.

    Raises:
        MissingRequirement: Ray isn't installed.
        SpecError: the graph has settings that Ray can't do, or a node has no target.
    """
    if name == "remote":
        from .mux import MutualTls
        from .remote import RemoteRuntime

        places = {node: place for node, _, place in (one.partition("=") for one in targets)}
        return RemoteRuntime(graph, places, tls=MutualTls.of(tls_dir) if tls_dir else None)
    if name in ("ray", "rayservice"):
        if importlib.util.find_spec("ray") is None:
            raise MissingRequirement(
                "needs ray[serve]; install the extra: pip install 'motet[ray]'", where="ray"
            )
        from .mux import MutualTls
        from .ray.serve import RayRuntime
        from .ray.service import RayServiceRuntime

        kind = RayServiceRuntime if name == "rayservice" else RayRuntime
        return kind(graph, tls=MutualTls.of(tls_dir) if tls_dir else None)
    if name == "workers":
        from .workers import WorkersRuntime

        return WorkersRuntime(graph)
    from .local import LocalRuntime

    return LocalRuntime(graph)
