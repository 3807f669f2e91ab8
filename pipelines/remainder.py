"""What is left of a file whose shape is at fault, so that its other faults are told too."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from .spec import PipelineSpec

Remainder = tuple[PipelineSpec, frozenset[str], bool]
"""What can still be checked, the nodes in it whose component isn't known, and whether its edges
are all there."""


def remainder(value: dict[str, Any], errors: Sequence[ErrorDetails]) -> Remainder | None:
    """The file without the keys at fault; None where too little is left to check."""
    kept = copy.deepcopy(value)
    unknown: set[str] = set()
    whole = True
    for error in errors:
        match error["loc"]:
            case ("nodes",) | ("edges",) | ("nodes", _, "[key]"):
                return None
            case ("nodes", str(name), str(key), *_) if key != "use":
                kept["nodes"][name].pop(key, None)
            case ("nodes", str(name), *_):
                unknown.add(name)
            case ("edges", int(index), *_):
                kept["edges"][index] = {}
                whole = False
            case ("name", *_):
                kept["name"] = "unnamed"
            case (str(key), *_):
                kept.pop(key, None)
            case _:
                return None
    for name in unknown:
        kept["nodes"][name] = {"use": ""}
    try:
        return PipelineSpec.model_validate(kept), frozenset(unknown), whole
    except ValidationError:
        return None
