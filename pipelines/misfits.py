"""What pydantic found in a part of a pipeline file, in the words of that file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ..components.errors import nearest

Place = tuple[str | int, ...]
SHOULD = "Input should be "


def misfits(
    model: type[BaseModel], error: ValidationError, value: object
) -> Iterator[tuple[Place, str]]:
    """Each fault of `value` once: where several types are possible, those of the one that was meant
    (they lie deeper), else all the types in one sentence."""
    found = [(place_of(one, value), one) for one in error.errors(include_url=False)]
    said: dict[Place, list[ErrorDetails]] = {}
    for place, one in found:
        deeper = any(each[: len(place)] == place != each for each, _ in found)
        if not (deeper and names_type(one, place)):
            said.setdefault(place, []).append(one)
    for place, ones in said.items():
        yield place, " or ".join(dict.fromkeys(words(model, ones)))


def words(model: type[BaseModel], ones: list[ErrorDetails]) -> Iterator[str]:
    """What is said of one place, a piece for each type that was possible there."""
    for index, one in enumerate(ones):
        if one["type"] == "extra_forbidden":
            known = known_keys(model, one["loc"][:-1])
            yield f"unknown key; {nearest(str(one['loc'][-1]), known)}"
        elif one["type"] == "missing":
            yield "is missing"
        else:
            text = re.sub(r"dictionary( or instance of \w+)?", "mapping", one["msg"])
            text = text.removeprefix(SHOULD) if index else text
            yield text if index < len(ones) - 1 else f"{text}, got {one['input']!r:.80}"


def place_of(one: ErrorDetails, value: Any) -> Place:
    """Where in `value` it is, without the names of types that pydantic puts in between."""
    place: list[str | int] = []
    for part in one["loc"]:
        if holds(value, part):
            value = value[part]
        elif one["type"] != "missing" or part != one["loc"][-1]:
            continue
        place.append(part)
    return tuple(place)


def holds(value: Any, part: str | int) -> bool:
    """Whether a step of pydantic's is a key or an index of this value, not a type's name."""
    if isinstance(value, list):
        return isinstance(part, int)
    return isinstance(value, dict) and part in value


def names_type(one: ErrorDetails, place: Place) -> bool:
    """Whether it says no more than that one of the possible types isn't what stands there."""
    return bool(one["loc"]) and one["loc"][-1] not in (*place[-1:], "[key]")


def known_keys(model: type[BaseModel], loc: tuple[str | int, ...]) -> list[str]:
    """The keys that are possible at a place of a model."""
    current = [model]
    for part in loc:
        fields = [one.model_fields[part] for one in current if part in one.model_fields]
        current = [inner for one in fields for inner in models_in(one.annotation)] or current
        current = [one for one in current if one.__name__ == part] or current
    return list(dict.fromkeys(name for one in current for name in one.model_fields))


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that stand anywhere in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)
