"""Where each key of a YAML file stands, so that a fault can name its line."""

from __future__ import annotations

from typing import Any, cast

import yaml

from ..components.errors import Flaw, SpecError

Path = tuple[str | int, ...]


def parse(text: str, file: str = "") -> tuple[Any, dict[Path, int]]:
    """Read one YAML document: its value, and the line (from 1) of every path in it.

    Raises:
        SpecError: it isn't YAML, a key stands twice, or a part contains itself.
    """
    try:
        root = cast(
            "yaml.Node | None",
            yaml.compose(text, Loader=yaml.SafeLoader),  # pyright: ignore[reportUnknownMemberType]
        )
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 0
        what = getattr(error, "problem", None) or str(error)
        raise SpecError([Flaw("", f"not YAML: {what}", line)], file=file) from error
    lines: dict[Path, int] = {}
    flaws: list[Flaw] = []
    if root is not None:
        _walk(root, (), (), lines, flaws)
    if flaws:
        raise SpecError(flaws, file=file)
    return value, lines


def _walk(
    node: yaml.Node,
    path: Path,
    around: tuple[yaml.Node, ...],
    lines: dict[Path, int],
    flaws: list[Flaw],
) -> None:
    lines.setdefault(path, node.start_mark.line + 1)
    if node in around:
        flaws.append(Flaw(dotted(path), "contains itself", line_of(path, lines)))
        return
    around = (*around, node)
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            name = str(key.value)
            here = (*path, name)
            line = key.start_mark.line + 1
            if here in lines:
                flaws.append(Flaw(dotted(here), f"stands twice, first at line {lines[here]}", line))
                continue
            lines[here] = line
            _walk(child, here, around, lines, flaws)
    elif isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            _walk(child, (*path, index), around, lines, flaws)


def dotted(path: Path) -> str:
    """`("nodes", "llm", "use")` as `nodes.llm.use`, list places as `edges[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def line_of(path: Path, lines: dict[Path, int]) -> int:
    """The line of the path, or of the nearest part of it that stands in the file."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 0)
