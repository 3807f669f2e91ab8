"""The transformer blocks of a denoiser, in the order they run, and where their outputs lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from diffusers.hooks import _helpers as helpers  # pyright: ignore[reportPrivateUsage]
from torch import Tensor, nn

_LISTS = ("transformer_blocks", "single_transformer_blocks", "blocks")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a block's output holds the hidden states, and those of the text where it has them."""

    hidden: int
    text: int | None


# Those that diffusers' registry leaves out.
_ALSO_KNOWN = {"SanaTransformerBlock": Layout(0, None)}


def blocks_of(denoiser: nn.Module) -> list[nn.Module]:
    """All blocks, first to last; empty for a UNet, whose blocks aren't one after another."""
    found: list[nn.Module] = []
    for name in _LISTS:
        held = getattr(denoiser, name, None)
        if isinstance(held, nn.ModuleList):
            found += list(held)
    return found


def layout_of(block: nn.Module) -> Layout | None:
    """How the block's output is laid out, None where nobody has said."""
    registry: Any = helpers.TransformerBlockRegistry
    try:
        known = registry.get(type(block))
    except ValueError:
        return _ALSO_KNOWN.get(type(block).__name__)
    return Layout(known.return_hidden_states_index, known.return_encoder_hidden_states_index)


def hidden_of(output: Any, layout: Layout) -> Tensor:
    """The hidden states in a block's output."""
    return output if isinstance(output, Tensor) else output[layout.hidden]


def with_hidden(output: Any, layout: Layout, hidden: Tensor) -> Any:
    """The output with other hidden states."""
    if isinstance(output, Tensor):
        return hidden
    values = list(cast("tuple[Any, ...]", output))
    values[layout.hidden] = hidden
    return tuple(values)


def untouched(arguments: dict[str, Any], layout: Layout) -> Any:
    """What a block would return if it added nothing."""
    hidden, text = arguments["hidden_states"], arguments.get("encoder_hidden_states")
    if layout.text is None:
        return hidden
    values: list[Any] = [None, None]
    values[layout.hidden], values[layout.text] = hidden, text
    return tuple(values)


def innermost(block: nn.Module) -> Any:
    """Whatever holds the block's own `forward`: itself, or the first of diffusers' hooks on it.

    Hooks that split tokens over ranks must stay outside of what looks at the tokens.
    """
    registry: Any = getattr(block, "_diffusers_hook", None)
    return registry._fn_refs[0] if registry is not None and registry._fn_refs else block
