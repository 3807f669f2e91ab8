"""Checks of a pipeline: every fault at once, with its place, what was got, what is possible."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from ..components import registry
from ..components.base import Component, Setup
from ..components.errors import Flaw, MotetError, SpecError, nearest
from ..components.frames import Frame
from . import positions
from .edges import items, meet, names_in, names_of, pairs_of, spread
from .graph import FRAME_TYPES, INPUT, SINKS, SOURCES, Edge, Graph, Node, topological
from .misfits import Place, misfits
from .remainder import remainder
from .spec import EdgeSpec, NodeSpec, PipelineSpec


@dataclass
class Checker:
    """Gathers faults while a specification is turned into a graph."""

    lines: dict[Place, int] = field(default_factory=dict[Place, int])
    flaws: list[Flaw] = field(default_factory=list[Flaw])

    def fault(self, place: Place, message: str) -> None:
        """Note one fault, once."""
        flaw = Flaw(positions.dotted(place), message, positions.line_of(place, self.lines))
        if flaw not in self.flaws:
            self.flaws.append(flaw)

    def schema(
        self, model: type[BaseModel], error: ValidationError, value: Any, base: Place = ()
    ) -> None:
        """Note what pydantic found in `value`."""
        for place, message in misfits(model, error, value):
            self.fault((*base, *place), misplaced(place, value) or message)

    def nodes(self, spec: PipelineSpec, unknown: frozenset[str] = frozenset()) -> dict[str, Node]:
        """The nodes whose component is known, their options checked; without those of `unknown`."""
        nodes: dict[str, Node] = {}
        for name, node in spec.nodes.items():
            if name in unknown:
                continue
            place = ("nodes", name)
            if name in SOURCES | SINKS:
                self.fault(place, f"{name!r} is the name of an end of the graph; choose another")
            kind = self._component(place, node)
            if kind is not None:
                nodes[name] = Node(name, node, kind.accepts, kind.emits)
        return nodes

    def _component(self, place: Place, node: NodeSpec) -> type[Component] | None:
        try:
            kind = registry.component_class(node.use)
        except MotetError as error:
            self.fault((*place, "use"), error.message)
            return None
        try:
            kind.options.model_validate(node.options)
        except ValidationError as error:
            self.schema(kind.options, error, node.options, (*place, "options"))
            return kind
        setup = Setup(place[-1] if isinstance(place[-1], str) else "", node.model, node.options)
        try:
            lacks = kind.requirements(setup)
        except MotetError as error:
            lacks = [error.message]
        for lack in lacks:
            self.fault(place, lack)
        return kind

    def edges(self, spec: PipelineSpec, nodes: dict[str, Node]) -> list[Edge]:
        """The edges whose ends exist and whose types fit."""
        edges: list[Edge] = []
        for index, entry in enumerate(spec.edges):
            for text, settings in items(entry):
                place: Place = ("edges", index)
                names = names_in(text)
                if len(names) < 2 or not all(names):
                    self.fault(place, f"{text!r} is no edge; write 'a -> b' or 'a -> b -> c'")
                    continue
                for source, target in pairwise(names):
                    edge = self._edge(place, spec, nodes, source, target, settings)
                    if edge is not None:
                        edges.append(edge)
        return edges

    def _edge(
        self,
        place: Place,
        spec: PipelineSpec,
        nodes: dict[str, Node],
        source: str,
        target: str,
        settings: EdgeSpec,
    ) -> Edge | None:
        known = True
        for name, ends in ((source, SOURCES), (target, SINKS)):
            if name not in spec.nodes and name not in ends:
                self.fault(place, f"{name!r} is unknown; {nearest(name, [*spec.nodes, *ends])}")
                known = False
        if not known or not (source in nodes or source in SOURCES):
            return None
        if not (target in nodes or target in SINKS):
            return None
        if target in SINKS and settings.model_fields_set & {"capacity", "overflow"}:
            bound = "what comes out has one queue, bounded by sessions.max_output_frames"
            self.fault(place, f"'{source} -> {target}' has no capacity or overflow: {bound}")
        wanted = self._types(place, settings)
        emits = nodes[source].emits if source in nodes else (Frame,)
        accepts = nodes[target].accepts if target in nodes else (Frame,)
        carries = tuple(dict.fromkeys(meet(emits, accepts)))
        if wanted:
            carries = tuple(dict.fromkeys(meet(carries, wanted)))
        if not carries:
            self.fault(
                place,
                f"nothing fits: {source} emits {names_of(emits)},"
                f" {target} accepts {names_of(wanted or accepts)}",
            )
            return None
        return Edge(source, target, carries, settings)

    def _types(self, place: Place, settings: EdgeSpec) -> tuple[type[Frame], ...]:
        found: list[type[Frame]] = []
        if settings.carries == ():
            self.fault(place, "carries nothing; without a list it carries all that fits")
        for name in settings.carries or ():
            if name in FRAME_TYPES:
                found.append(FRAME_TYPES[name])
            else:
                self.fault(place, f"frame {name!r} is unknown; {nearest(name, list(FRAME_TYPES))}")
        return tuple(found)

    def shape(self, spec: PipelineSpec, edges: list[Edge], pairs: list[tuple[str, str]]) -> None:
        """Cycles, doubled edges, nodes that nothing reaches, that lead nowhere, or whose queue
        isn't one."""
        ordered = set(topological(spec.nodes, pairs))
        if cycle := [name for name in spec.nodes if name not in ordered]:
            self.fault(("edges",), f"a cycle runs through {', '.join(cycle)}")
        seen: set[tuple[str, str]] = set()
        for edge in edges:
            if (edge.source, edge.target) in seen:
                self.fault(("edges",), f"'{edge.source} -> {edge.target}' stands twice")
            seen.add((edge.source, edge.target))
        reached = spread(SOURCES, pairs)
        useful = spread(SINKS, [(target, source) for source, target in pairs])
        for name in spec.nodes:
            if name not in reached:
                self.fault(("nodes", name), f"nothing reaches it from {INPUT!r}")
            elif name not in useful:
                self.fault(("nodes", name), "it leads nowhere; give it an edge to 'output'")
            queues = {one.settings.queue for one in edges if one.target == name}
            if len(queues) > 1:
                said = " and ".join(f"{most} frames, {full}" for most, full in sorted(queues))
                self.fault(("nodes", name), f"the edges into it share one queue, but say {said}")

    def rest(self, value: dict[str, Any], error: ValidationError) -> None:
        """Note the faults of what is left of a file without the keys that `schema` noted."""
        left = remainder(value, error.errors(include_url=False))
        if left is None:
            return
        spec, unknown, whole = left
        edges = self.edges(spec, self.nodes(spec, unknown))
        if whole:
            self.shape(spec, edges, pairs_of(spec))


def build(spec: PipelineSpec, *, lines: dict[Place, int] | None = None, file: str = "") -> Graph:
    """Check a specification and make its graph.

    Raises:
        SpecError: with every fault found.
    """
    checker = Checker(lines or {})
    nodes = checker.nodes(spec)
    edges = checker.edges(spec, nodes)
    checker.shape(spec, edges, pairs_of(spec))
    if not spec.nodes:
        checker.fault(("nodes",), "a pipeline needs at least one node")
    if checker.flaws:
        raise SpecError(checker.flaws, file=file)
    return Graph(spec, nodes, tuple(edges), file)


def parse(text: str, *, file: str = "") -> Graph:
    """Read and check the text of a pipeline file.

    Raises:
        SpecError: with every fault, each with its line.
    """
    value, lines = positions.parse(text, file)
    if not isinstance(value, dict):
        got = "nothing" if value is None else f"a {type(value).__name__}"
        message = f"a pipeline file holds the keys name, nodes and edges; got {got}"
        raise SpecError([Flaw("", message, 1)], file=file)
    try:
        spec = PipelineSpec.model_validate(value)
    except ValidationError as error:
        checker = Checker(lines)
        checker.schema(PipelineSpec, error, value)
        checker.rest(cast("dict[Any, Any]", value), error)
        raise SpecError(checker.flaws, file=file) from error
    return build(spec, lines=lines, file=file)


def load(file: str | Path) -> Graph:
    """Read and check a pipeline file; a bare name means one of the ready-made `configs/`.

    Raises:
        SpecError: it can't be read or has faults.
    """
    path = find(file)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        message = "there is no such file"
        if path.parent == Path():
            ready = nearest(path.name, sorted(one.stem for one in CONFIGS.glob("*.yaml")))
            message += f", nor a ready-made pipeline of that name; {ready}"
        raise SpecError([Flaw("", message)], file=str(file)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError([Flaw("", f"can't be read: {error}")], file=str(file)) from error
    return parse(text, file=str(file))


CONFIGS = Path(__file__).parents[1] / "configs"


def find(file: str | Path) -> Path:
    """The path of a pipeline file, or of the ready-made one of that name."""
    path = Path(file)
    ready = CONFIGS / f"{path.name}.yaml"
    return ready if not path.is_file() and path.parent == Path() and ready.exists() else path


def misplaced(place: Place, value: Any) -> str:
    """Where a key belongs that stands in a node and is an option of its component; else ""."""
    match place:
        case ("nodes", str(name), str(key)) if key not in NodeSpec.model_fields:
            try:
                options = registry.component_class(value["nodes"][name]["use"]).options
            except (MotetError, KeyError, TypeError):
                return ""
            here = key in options.model_fields
            return f"is an option: write `options: {{{key}: …}}`" if here else ""
        case _:
            return ""
