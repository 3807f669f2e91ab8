"""The options that a request brings along, checked against what its component takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from .errors import BadInput

Model = TypeVar("Model", bound=BaseModel)


def checked(kind: type[Model], given: Mapping[str, Any], *, where: str = "") -> Model:
    """The options as `kind` reads them.

    Raises:
        BadInput: some are unknown or wrong; all of them are named, `param` is the first.
    """
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        flaws = error.errors(include_url=False)
        said = "; ".join(map(told, flaws))
        if any(flaw["type"] == "extra_forbidden" for flaw in flaws):
            said += f"; known options: {', '.join(kind.model_fields)}"
        first = flaws[0]["loc"]
        raise BadInput(
            said,
            where=where,
            param=str(first[0]) if first else None,
        ) from error


def told(flaw: ErrorDetails) -> str:
    """A flaw as one clause: its option, where it is of one, and what is wrong."""
    option = ".".join(map(str, flaw["loc"]))
    message = flaw["msg"].removeprefix("Value error, ")
    return f"{option}: {message}" if option else message
