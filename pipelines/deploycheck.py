"""What Kubernetes can't do of a graph, and names that it doesn't take."""

from __future__ import annotations

from collections import Counter

from ..components.errors import Flaw, SpecError, nearest
from .deploy import Naming

LONGEST_NAME = 63
GATEWAY = "gateway"


def check(naming: Naming) -> None:
    """Refuse what has no translation.

    Raises:
        SpecError: with every setting that can't be had on Kubernetes.
    """
    _refuse(naming, [*_gpus(naming), *_images(naming), *_names(naming)])


def check_names(naming: Naming) -> None:
    """Refuse names alone; see `check`."""
    _refuse(naming, [*_images(naming), *_names(naming)])


def _refuse(naming: Naming, flaws: list[Flaw]) -> None:
    if flaws:
        raise SpecError(flaws, file=f"{naming.graph.name} on kubernetes")


def _gpus(naming: Naming) -> list[Flaw]:
    return [
        Flaw(
            f"nodes.{name}.resources.gpus",
            f"Kubernetes hands out whole GPUs, got {node.spec.resources.gpus:g}",
        )
        for name, node in naming.graph.nodes.items()
        if node.spec.resources.gpus % 1
    ]


def _images(naming: Naming) -> list[Flaw]:
    known = list(naming.graph.nodes)
    return [
        Flaw(f"node_images.{name}", f"is no node; {nearest(name, known)}")
        for name in naming.settings.node_images
        if name not in known
    ]


def _names(naming: Naming) -> list[Flaw]:
    """Objects are named after pipeline and node, where "_" and "." become "-"."""
    names = {node: naming.name(node) for node in naming.graph.nodes}
    taken = Counter([*names.values(), naming.name(GATEWAY)])
    flaws: list[Flaw] = []
    for node, name in names.items():
        if len(name) > LONGEST_NAME:
            why = f"{name!r} is longer than the {LONGEST_NAME} letters of a service's name"
            flaws.append(Flaw(f"nodes.{node}", why))
        if taken[name] > 1:
            flaws.append(Flaw(f"nodes.{node}", f"another part is named {name!r} too; rename it"))
    return flaws
