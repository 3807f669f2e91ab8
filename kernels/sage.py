"""8-bit attention in the manner of SageAttention: prepare keys and values once, then attend.

The two steps are apart because a ring sends what `prepare` makes. On CUDA (or in Triton's
interpreter) both run as Triton kernels, elsewhere in plain torch with the same rounding.
Sources: SageAttention (arXiv 2410.02367), SageAttention 2 (arXiv 2411.10958).
"""

import importlib
import os
from types import ModuleType

import torch
from torch import Tensor

from . import emulate, quantised
from .quantised import QuantisedKV
from .request import AttentionRequest, Precision, installed

LARGEST_HEAD = 256


def prepare(k: Tensor, v: Tensor, precision: Precision, emulated: bool) -> QuantisedKV:
    """Quantise one shard of keys and values; k, v (batch, kv_heads, length, dim)."""
    if emulated or k.shape[2] == 0:
        return quantised.quantise_kv(k, v, precision)
    return _quantise_triton().quantise_kv(k, v, precision)


def attend(
    q: Tensor,
    kv: QuantisedKV,
    mask: Tensor | None,
    causal: bool,
    causal_offset: int,
    scale: float,
    out_dtype: torch.dtype,
    emulated: bool,
) -> tuple[Tensor, Tensor]:
    """Output and natural-log LSE (float32). Key j is causal for query i if j <= i + offset."""
    if emulated or 0 in (q.shape[2], kv.length):
        return emulate.attend(q, kv, mask, causal, causal_offset, scale, out_dtype)
    return _sage_triton().attend(q, kv, mask, causal, causal_offset, scale, out_dtype)


def triton_refusals(request: AttentionRequest) -> list[str]:
    """Why the Triton kernels can't answer, in words; empty when they can."""
    reasons = common_refusals(request)
    if not installed("triton"):
        reasons.append("triton is not installed")
    if request.value_dim != request.head_dim:
        reasons.append(f"head_dim {request.head_dim} and value dim {request.value_dim} differ")
    if request.dtype == torch.float64:
        reasons.append("dtype is float64")
    elif request.dtype == torch.float32 and "full" in (request.precision.qk, request.precision.pv):
        reasons.append("a product in float32 would run as TF32")
    if request.capability is None:
        if not interpreter_on():
            reasons.append(f"the tensors are on {request.device}, not on CUDA")
    elif request.capability < _needed(request.precision):
        reasons.append(
            f"the GPU is sm_{_sm(request.capability)}, needs sm_{_sm(_needed(request.precision))}"
        )
    return reasons


def emulated_refusals(request: AttentionRequest) -> list[str]:
    """Why the plain-torch twin is not taken unasked; it is no faster than full precision."""
    reasons = common_refusals(request)
    if request.device != "cpu":
        reasons.append(f"it is for CPU tensors, these are on {request.device}")
    return reasons


def common_refusals(request: AttentionRequest) -> list[str]:
    reasons: list[str] = []
    if not request.precision.quantised:
        reasons.append("the precision asked for is full")
    if request.grad:
        reasons.append("it has no backward pass and an input requires grad")
    if request.head_dim > LARGEST_HEAD:
        reasons.append(f"head_dim {request.head_dim} is over {LARGEST_HEAD}")
    return reasons


def interpreter_on() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


def _needed(precision: Precision) -> tuple[int, int]:
    return (8, 9) if "fp8" in (precision.qk, precision.pv) else (8, 0)


def _sm(capability: tuple[int, int]) -> str:
    return f"{capability[0]}{capability[1]}"


def _sage_triton() -> ModuleType:
    return importlib.import_module(".sage_triton", __package__)


def _quantise_triton() -> ModuleType:
    return importlib.import_module(".quantise_triton", __package__)
