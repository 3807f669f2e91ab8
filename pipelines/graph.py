"""The graph: nodes joined by typed edges, and where a frame that enters it goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ..components import frames
from ..components.frames import Control, Fault, Frame
from .spec import EdgeSpec, NodeSpec, PipelineSpec

INPUT, OUTPUT, CONVERSATION = "input", "output", "conversation"
SOURCES = frozenset({INPUT, CONVERSATION})
SINKS = frozenset({OUTPUT, CONVERSATION})

FRAME_TYPES: dict[str, type[Frame]] = {
    name: kind
    for name, kind in vars(frames).items()
    if isinstance(kind, type) and issubclass(kind, Frame) and kind not in (Frame, Control)
}


@dataclass(frozen=True, slots=True)
class Node:
    """A component in its place: what it was declared as, and the frames of its two ports."""

    name: str
    spec: NodeSpec
    accepts: tuple[type[Frame], ...]
    emits: tuple[type[Frame], ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """Carries the frames of `carries` (and `Control`s) from `source` to `target`."""

    source: str
    target: str
    carries: tuple[type[Frame], ...]
    settings: EdgeSpec = field(default_factory=EdgeSpec)

    def takes(self, kind: type[Frame]) -> bool:
        """Whether frames of `kind` travel here."""
        return issubclass(kind, self.carries)


@dataclass(frozen=True)
class Graph:
    """A checked graph: acyclic, every node reached, every edge's types fit. Made by `validate`.

    `file` is what it was loaded from, as it was named; "" for one made in Python.
    """

    spec: PipelineSpec
    nodes: dict[str, Node]
    edges: tuple[Edge, ...]
    file: str = ""

    @property
    def name(self) -> str:
        """The pipeline's name, which clients use as `model`."""
        return self.spec.name

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Node names, each after all that feed it."""
        return tuple(topological(self.nodes, [(e.source, e.target) for e in self.edges]))

    @cached_property
    def outlets(self) -> dict[str, tuple[Edge, ...]]:
        """The edges that leave each node, `input` and `conversation`."""
        names = [*self.nodes, *SOURCES]
        return {name: tuple(e for e in self.edges if e.source == name) for name in names}

    @cached_property
    def producers(self) -> dict[str, frozenset[str]]:
        """What feeds each node: other nodes, `input`, `conversation`."""
        return {
            name: frozenset(e.source for e in self.edges if e.target == name) for name in self.nodes
        }

    def may_emit(self, name: str, kind: type[object]) -> bool:
        """Whether a node's component declares frames of `kind`; controls and faults always may."""
        return issubclass(kind, (*self.nodes[name].emits, Control, Fault))

    def entries(self, kind: type[Frame]) -> tuple[str, ...]:
        """The nodes that a frame sent into the graph is handed to: on each way down from `input`
        or `conversation`, the first node that accepts it. A `Control` goes where audio goes, by
        `input` alone: it would start what is meant to wait for a prompt."""
        known = self._known_entries.get(kind)
        if known is None:
            known = self._known_entries[kind] = self._find_entries(kind)
        return known

    @cached_property
    def _known_entries(self) -> dict[type[Frame], tuple[str, ...]]:
        return {}

    def _find_entries(self, kind: type[Frame]) -> tuple[str, ...]:
        found: list[str] = []
        control = issubclass(kind, Control) and bool(self.outlets[INPUT])
        for source in [INPUT] if control else sorted(SOURCES):
            self._descend(source, kind, found, set())
        return tuple(dict.fromkeys(found))

    def _descend(self, source: str, kind: type[Frame], found: list[str], seen: set[str]) -> None:
        for edge in self.outlets[source]:
            node = self.nodes.get(edge.target)
            if node is None or node.name in seen:
                continue
            seen.add(node.name)
            if issubclass(kind, node.accepts) or issubclass(kind, Control):
                found.append(node.name)
            else:
                self._descend(node.name, kind, found, seen)


def topological(
    nodes: dict[str, Node] | dict[str, NodeSpec], pairs: list[tuple[str, str]]
) -> Iterator[str]:
    """Yield node names in dependency order; nodes on a cycle are left out."""
    names = list(nodes)
    waiting = {name: {s for s, t in pairs if t == name and s in names} for name in names}
    while ready := [name for name, needs in waiting.items() if not needs]:
        for name in ready:
            del waiting[name]
            yield name
        for needs in waiting.values():
            needs.difference_update(ready)
