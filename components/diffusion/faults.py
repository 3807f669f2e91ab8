"""A pipeline's exceptions as errors that a caller can act on."""

from __future__ import annotations

import torch

from ..errors import BadInput, ComponentFailed, MotetError
from .shot import Shot

_MEMORY_WORDS = ("out of memory", "can't allocate memory", "not enough memory")


class NotFinite(Exception):
    """A picture became NaN or infinite, in a step or (None) in the decoder."""

    def __init__(self, step: int | None) -> None:
        super().__init__(step)
        self.step = step


def translated(error: Exception, shot: Shot) -> MotetError:
    """A pipeline's exception as an error that a caller can act on."""
    if isinstance(error, MotetError):
        return error
    shape = shot.shape
    size = f"{shape.width}x{shape.height}" + (f", {shape.frames} frames" if shape.frames else "")
    if isinstance(error, NotFinite):
        where = "in the decoder" if error.step is None else f"at step {error.step + 1}"
        failed = ComponentFailed(
            f"the picture became NaN or infinite {where}; a wider dtype helps"
            " (options dtype, vae_dtype: float32), or less guidance"
        )
    elif is_memory(error):
        failed = ComponentFailed(
            f"out of memory at {size}; ask for a smaller one, or set vae_tiling, offload or a"
            " smaller max_batch in the pipeline file"
        )
    elif isinstance(error, ValueError):
        failed = BadInput(str(error), where="generate")
    else:
        failed = ComponentFailed(f"{type(error).__name__}: {error}")
    failed.__cause__ = error
    return failed


def is_memory(error: Exception) -> bool:
    """Whether memory ran out, on a GPU or here."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(
        word in str(error).lower() for word in _MEMORY_WORDS
    )
