"""Bounds on the JSON schemas that clients send: an engine computes for all of its sessions."""

from __future__ import annotations

from typing import Any, cast

from ..errors import BadInput
from ..frames import Prompt

MOST_CHOICES = 500
_CHOICES = ("enum", "anyOf", "oneOf")


def check_schemas(prompt: Prompt, *, where: str) -> None:
    """Refuse schemas with so many choices that holding an answer to them stops everybody's.

    llama.cpp's time grows with the square of them: half a second a token for 500, 18 for 5,000.

    Raises:
        BadInput: a format, or a tool's parameters, have more than `MOST_CHOICES`.
    """
    schemas = [("response_format", prompt.schema)] if prompt.schema is not None else []
    schemas += [(f"tools: {tool.name!r:.80}", tool.parameters) for tool in prompt.tools]
    for name, schema in schemas:
        found = choices(schema)
        if found > MOST_CHOICES:
            raise BadInput(
                f"{name} has {found} choices (in enum, anyOf, oneOf); at most {MOST_CHOICES}",
                where=where,
                param=name.partition(":")[0],
            )


def choices(schema: Any) -> int:
    """How many alternatives a schema has, all together."""
    found, waiting = 0, [schema]
    while waiting:
        one: Any = waiting.pop()
        if isinstance(one, dict):
            mapping = cast("dict[str, Any]", one)
            found += sum(
                len(mapping[key]) for key in _CHOICES if isinstance(mapping.get(key), list)
            )
            waiting += mapping.values()
        elif isinstance(one, list):
            waiting += cast("list[Any]", one)
    return found
