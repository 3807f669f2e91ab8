"""Our attention inside models whose processors never ask diffusers' dispatcher.

The UNets of SD and SDXL, SD3, CogVideoX, PixArt and the VAEs call torch's
`scaled_dot_product_attention` themselves. Their own processor goes on running, as a subclass that
answers that one call with a registered backend.
"""

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

Backend = Callable[..., Tensor]
PLAIN = "plain_processor_class"


def calls_sdpa(processor: Any) -> bool:
    """Whether the processor's own code calls `scaled_dot_product_attention`."""
    kind: type = processor.__class__
    code = getattr(_plain(kind).__call__, "__code__", None)
    return code is not None and "scaled_dot_product_attention" in code.co_names


def redirected(processor: Any, backend: Backend | None) -> Any:
    """A copy of the processor, weights shared, that attends by `backend`; None undoes it."""
    kind: type = processor.__class__
    plain = _plain(kind)
    fresh = copy.copy(processor)
    fresh.__class__ = plain if backend is None else _subclass(plain, backend)
    return fresh


def _plain(kind: type) -> type:
    found: type = getattr(kind, PLAIN, kind)
    return found


def _subclass(plain: type, backend: Backend) -> type:
    inner: Callable[..., Tensor] = plain.__call__

    # Attention layers read the signature of `__call__` to know which arguments to pass on.
    @functools.wraps(inner)
    def call(self: object, *args: Any, **kwargs: Any) -> Tensor:
        with _Redirect(backend):
            return inner(self, *args, **kwargs)

    return type(f"Motet{plain.__name__}", (plain,), {"__call__": call, PLAIN: plain})


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
        return _answer(self.backend, *args, **(kwargs or {}))


def _answer(
    backend: Backend, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any
) -> Tensor:
    """torch's layout (batch, heads, length, dim) to the dispatcher's and back."""
    q, k, v = (tensor.transpose(1, 2) for tensor in (query, key, value))
    return backend(q, k, v, *args, **kwargs).transpose(1, 2)
