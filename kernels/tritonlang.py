"""Triton under untyped names: it ships no types, and inside a kernel it is its own language."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton as _triton
import triton.language as _language
from torch import Tensor

triton: Any = _triton
tl: Any = _language


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter (TRITON_INTERPRET=1), on CPU tensors."""
    return bool(triton.knobs.runtime.interpret)


def in_rows(tensor: Tensor) -> Tensor:
    """The tensor with each row of its last axis in one piece, as every kernel reads them."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def on_device_of(tensor: Tensor) -> AbstractContextManager[object]:
    """Make the tensor's GPU the current one: Triton launches there, whatever it is given."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()
