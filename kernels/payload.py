"""Several tensors as one byte buffer, so that a ring step is a single message."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .quantised import Spec

ALIGN_BYTES = 16


def pack(tensors: Sequence[Tensor]) -> Tensor:
    """Contiguous uint8 buffer; each part starts on a 16-byte boundary."""
    parts: list[Tensor] = []
    for tensor in tensors:
        flat = tensor.contiguous().view(-1).view(torch.uint8)
        gap = flat.new_zeros(-flat.numel() % ALIGN_BYTES)
        parts += [flat, gap]
    return torch.cat(parts)


def unpack(buffer: Tensor, specs: Sequence[Spec]) -> list[Tensor]:
    """Views into `buffer`, in the order of `pack`."""
    out: list[Tensor] = []
    start = 0
    for shape, dtype in specs:
        size = math.prod(shape) * dtype.itemsize
        out.append(buffer[start : start + size].view(dtype).view(shape))
        start += size + -size % ALIGN_BYTES
    return out


def packed_bytes(specs: Sequence[Spec]) -> int:
    """Length of the buffer that `pack` makes for these shapes."""
    sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in specs]
    return sum(size + -size % ALIGN_BYTES for size in sizes)
