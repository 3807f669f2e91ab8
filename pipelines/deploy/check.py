"""What Kubernetes can't do of a graph, and names that it doesn't take."""

from __future__ import annotations

from collections import Counter

from ...components.errors import Flaw, SpecError, nearest
from ..graph import Node
from .canary import changed
from .kubernetes import Naming

LONGEST_NAME = 63
GATEWAY = "gateway"


def check(naming: Naming, canary: Naming | None) -> None:
    """Refuse what has no translation.

    Raises:
        SpecError: with every setting that can't be had on Kubernetes.
    """
    parts = _parts(naming, canary)
    _refuse(naming, [*_gpus(parts), *_images(naming, parts), *_names(naming, parts)])


def check_names(naming: Naming, canary: Naming | None) -> None:
    """Refuse names alone; see `check`."""
    parts = _parts(naming, canary)
    _refuse(naming, [*_images(naming, parts), *_names(naming, parts)])


def _parts(naming: Naming, canary: Naming | None) -> list[tuple[str, Node]]:
    """What runs in pods of its own."""
    parts = list(naming.graph.nodes.items())
    if canary is not None:
        parts += [(canary.part(one.name), one) for one in changed(naming.graph, canary)]
    return parts


def _refuse(naming: Naming, flaws: list[Flaw]) -> None:
    if flaws:
        raise SpecError(flaws, file=f"{naming.graph.name} on kubernetes")


def _gpus(parts: list[tuple[str, Node]]) -> list[Flaw]:
    return [
        Flaw(
            f"nodes.{name}.resources.gpus",
            f"Kubernetes hands out whole GPUs, got {node.spec.resources.gpus:g}",
        )
        for name, node in parts
        if node.spec.resources.gpus % 1
    ]


def _images(naming: Naming, parts: list[tuple[str, Node]]) -> list[Flaw]:
    known = [name for name, _ in parts]
    return [
        Flaw(f"node_images.{name}", f"is no node; {nearest(name, known)}")
        for name in naming.settings.node_images
        if name not in known
    ]


def _names(naming: Naming, parts: list[tuple[str, Node]]) -> list[Flaw]:
    """Objects are named after pipeline and node, where "_" and "." become "-"."""
    names = [(part, naming.name(part)) for part, _ in parts]
    taken = Counter([*(name for _, name in names), naming.name(GATEWAY)])
    flaws: list[Flaw] = []
    for node, name in names:
        if len(name) > LONGEST_NAME:
            why = f"{name!r} is longer than the {LONGEST_NAME} letters of a service's name"
            flaws.append(Flaw(f"nodes.{node}", why))
        if taken[name] > 1:
            flaws.append(Flaw(f"nodes.{node}", f"another part is named {name!r} too; rename it"))
    return flaws
