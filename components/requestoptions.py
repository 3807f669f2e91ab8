"""The options that a request brings along, checked against what its component takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

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
        said = "; ".join(f"{'.'.join(map(str, flaw['loc']))}: {flaw['msg']}" for flaw in flaws)
        first = flaws[0]["loc"]
        raise BadInput(
            f"{said}; known options: {', '.join(kind.model_fields)}",
            where=where,
            param=str(first[0]) if first else None,
        ) from error
