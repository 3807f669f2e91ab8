"""Our attention inside UNets and VAEs, whose processors never ask diffusers' dispatcher.

SD's and SDXL's UNet call torch's `scaled_dot_product_attention` from `AttnProcessor2_0`. This
processor runs that very code and answers that one call with a registered backend.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from diffusers.models.attention_processor import Attention, AttnProcessor2_0
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

Backend = Callable[..., Tensor]


class SdpaProcessor(AttnProcessor2_0):
    """`AttnProcessor2_0` with its attention computed by `backend`, a dispatcher function."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.backend = backend

    def __call__(
        self,
        attn: Attention,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        temb: Tensor | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        with _Redirect(self.backend):
            # diffusers leaves *args and **kwargs of its processors untyped.
            return super().__call__(  # pyright: ignore[reportUnknownMemberType]
                attn, hidden_states, encoder_hidden_states, attention_mask, temb, *args, **kwargs
            )


class _Redirect(TorchFunctionMode):
    """Answers `scaled_dot_product_attention` and lets every other function through."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.backend = backend

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is not functional.scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        q, k, v = (tensor.transpose(1, 2) for tensor in args[:3])
        return self.backend(q, k, v, *args[3:], **(kwargs or {})).transpose(1, 2)
