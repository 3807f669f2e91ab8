"""A canary beside a deployed graph: which components run twice, and how an operator begins it."""

from __future__ import annotations

from collections.abc import Callable

from ...components.errors import Flaw, SpecError
from ..graph import Graph, Node
from .kubernetes import CANARY_FILE, DeploySettings, Naming

BUILT_FROM = ("use", "model", "options", "resources")
"""What a component needs pods of its own for, if it differs; the rest is the gateway's."""


def named(graph: Graph, canary: Graph, settings: DeploySettings) -> Naming:
    """How the objects of a canary are named.

    Raises:
        SpecError: it is one of another pipeline.
    """
    if canary.name != graph.name:
        flaw = Flaw("name", f"is {canary.name!r}; a canary of {graph.name!r} is needed")
        raise SpecError([flaw], file=canary.file)
    return Naming(canary, settings, canary=True)


def changed(graph: Graph, canary: Naming) -> list[Node]:
    """The canary's nodes that need pods of their own."""
    nodes = [canary.graph.nodes[name] for name in canary.graph.order]
    return [node for node in nodes if not _same(graph.nodes.get(node.name), node, canary)]


def _same(old: Node | None, new: Node, canary: Naming) -> bool:
    if old is None or canary.part(new.name) in canary.settings.node_images:
        return False
    return all(getattr(old.spec, part) == getattr(new.spec, part) for part in BUILT_FROM)


def guide(
    graph: Graph,
    canary: Graph,
    settings: DeploySettings,
    place: Callable[[Naming, str], str],
    end: str,
) -> str:
    """What is to be done once the objects are there, as a comment in front of them. `place` says
    where the gateway finds a changed node, `end` what becomes of the canary's {parts}.
    """
    naming = named(graph, canary, settings)
    nodes = [node.name for node in changed(graph, naming)]
    places = " ".join(f"{node}={place(naming, node)}" for node in nodes)
    begin = f"motet canary start {graph.name} --file {CANARY_FILE} --share 10%"
    begin += f" --targets {places}" if nodes else ""
    parts = ", ".join(naming.name(naming.part(node)) for node in nodes)
    kubectl = f"kubectl -n {settings.namespace}"
    labels = ",".join(f"{key}={value}" for key, value in naming.labels("gateway").items())
    return f"""\
# Begin the canary when all pods are ready, at every gateway, for each decides for itself and one
# that starts later knows nothing of it:
#   for pod in $({kubectl} get pods -o name -l {labels}); do
#     {kubectl} exec $pod -- {begin} --key ADMIN_KEY
#   done
# `motet canary share|promote|abort {graph.name}` go the same way. In the end deploy the file that
# stays, without --canary. {end.format(parts=parts) if nodes else ""}
"""
