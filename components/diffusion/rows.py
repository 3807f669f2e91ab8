"""Cutting a denoiser's arguments down to some rows of their batch, and putting results back."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

RowKey = tuple[str, int]
"""A row of a denoiser call: its branch ("cond" or "uncond") and which picture it is of."""

# Positions, (tokens, size) without a batch axis, although `tokens` may happen to equal the batch.
_SHARED = ("img_ids", "txt_ids", "rotary", "rope", "freqs")


def bind(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """All arguments of a call by name, those of `**kwargs` among them."""
    bound = dict(signature.bind(*args, **kwargs).arguments)
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD and name in bound:
            bound.update(bound.pop(name))
    return bound


def select(arguments: Mapping[str, Any], rows: Tensor, size: int) -> dict[str, Any]:
    """The arguments with only these rows of everything that has `size` of them."""
    return {name: _select(name, value, rows, size) for name, value in arguments.items()}


def has_rows(name: str, value: Tensor, size: int) -> bool:
    """Whether an argument has one entry for each row of the batch."""
    shared = value.dim() < 3 and any(part in name for part in _SHARED)
    return value.dim() > 0 and value.shape[0] == size and not shared


def _select(name: str, value: Any, rows: Tensor, size: int) -> Any:
    if isinstance(value, Tensor):
        fits = has_rows(name, value, size)
        return value.index_select(0, rows.to(value.device)) if fits else value
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: _select(key, held, rows, size) for key, held in items}
    if isinstance(value, list | tuple):
        return _select_many(name, cast("list[Any] | tuple[Any, ...]", value), rows, size)
    return value


def _select_many(name: str, values: list[Any] | tuple[Any, ...], rows: Tensor, size: int) -> Any:
    """A list of tensors is cut inside; a list with one entry per row (`img_shapes`) by entries."""
    if any(isinstance(value, Tensor) for value in values):
        return type(values)([_select(name, value, rows, size) for value in values])
    if len(values) == size and isinstance(values, list) and not isinstance(values[0], int | float):
        return [values[int(row)] for row in rows]
    return values


def first_tensor(output: Any) -> Tensor:
    """The prediction in what a denoiser or a block returned."""
    if isinstance(output, Tensor):
        return output
    found = output[0]
    if not isinstance(found, Tensor):
        raise TypeError(f"a denoiser's output starts with a tensor, got {type(found).__name__}")
    return found


def with_first(output: Any, tensor: Tensor) -> Any:
    """The same output with another prediction in it."""
    if isinstance(output, Tensor):
        return tensor
    if isinstance(output, tuple):
        rest = cast("tuple[Any, ...]", output)[1:]
        return (tensor, *rest)
    return type(output)(**{**output, next(iter(output)): tensor})


def same_rows(part: Tensor, whole: Tensor | None) -> bool | None:
    """Whether a part of a batch holds what was encoded; None where that can't be said."""
    if whole is None or part.shape != whole.shape:
        return None
    return torch.equal(part, whole.to(part.device, part.dtype))
