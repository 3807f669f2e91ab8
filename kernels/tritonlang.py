"""Triton under untyped names: it ships no types, and inside a kernel it is its own language."""

from typing import Any

import triton as _triton
import triton.language as _language

triton: Any = _triton
tl: Any = _language


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter (TRITON_INTERPRET=1), on CPU tensors."""
    return bool(triton.knobs.runtime.interpret)
