"""The attention backends: what each can't do, said in words, and how each is called.

A backend answers `refusals(request)` with every reason against it, and `run` with (output, LSE or
None). All follow one convention: a query that may attend to nothing gives zeros and LSE -inf;
causal is top-left (key j is seen by query i when j <= i); LSE is float32 in natural log.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from . import reference, sage
from .masks import as_4d, blind_rows, joined
from .request import AttentionRequest, Precision, installed

Answer = tuple[Tensor, Tensor | None]
aten: Any = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Inputs:
    """Arguments of one call, already checked; `scale` is never None."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    causal: bool
    scale: float
    lse: bool
    precision: Precision


@dataclass(frozen=True, slots=True)
class Backend:
    name: str
    refusals: Callable[[AttentionRequest], list[str]]
    run: Callable[[Inputs], Answer]


def _exact(request: AttentionRequest) -> list[str]:
    if request.precision.quantised:
        return [f"it computes QK and PV in {request.dtype}, not in 8 bits"]
    return []


def _flash_refusals(request: AttentionRequest, package: str, needed: tuple[int, int]) -> list[str]:
    reasons = _exact(request)
    if not installed(package):
        reasons.append(f"{package} is not installed")
    if request.capability is None:
        reasons.append(f"the tensors are on {request.device}, not on CUDA")
    elif request.capability < needed:
        reasons.append(f"the GPU is sm_{request.capability[0]}{request.capability[1]}")
    if request.dtype not in (torch.float16, torch.bfloat16):
        reasons.append(f"dtype is {request.dtype}, it takes float16 and bfloat16")
    if request.mask != "none":
        reasons.append("it takes no mask")
    if max(request.head_dim, request.value_dim) > 256 or request.head_dim != request.value_dim:
        reasons.append(f"head_dim {request.head_dim} with value dim {request.value_dim}")
    if request.causal and request.q_len != request.k_len:
        reasons.append("its causal mask is bottom-right where lengths differ")
    if request.grad and request.lse:
        reasons.append("its LSE has no backward pass")
    if 0 in (request.q_len, request.k_len):
        reasons.append("a length is zero")
    return reasons


def flash3_refusals(request: AttentionRequest) -> list[str]:
    reasons = _flash_refusals(request, "flash_attn_interface", (9, 0))
    if request.capability is not None and request.capability >= (10, 0):
        reasons.append("it is written for sm_90")
    return reasons


def flash2_refusals(request: AttentionRequest) -> list[str]:
    return _flash_refusals(request, "flash_attn", (8, 0))


def _run_flash(package: str, call: Inputs) -> Answer:
    module: Any = importlib.import_module(package)
    got: Any = module.flash_attn_func(
        call.q.transpose(1, 2),
        call.k.transpose(1, 2),
        call.v.transpose(1, 2),
        softmax_scale=call.scale,
        causal=call.causal,
        return_attn_probs=call.lse,
    )
    out: Tensor = got if hasattr(got, "shape") else got[0]
    lse: Tensor | None = got[1] if call.lse else None
    return out.transpose(1, 2), lse


def sdpa_refusals(request: AttentionRequest) -> list[str]:
    reasons = _exact(request)
    if request.lse:
        reasons.append("scaled_dot_product_attention returns no LSE")
    return reasons


def run_sdpa(call: Inputs) -> Answer:
    mask, causal = call.mask, call.causal
    if mask is not None:
        mask = joined(mask, causal, call.q.shape[2], call.k.shape[2], 0, call.q.device)
        causal = False
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(call.q.dtype)
    out = functional.scaled_dot_product_attention(
        call.q, call.k, call.v, mask, 0.0, causal, scale=call.scale, enable_gqa=_gqa(call)
    )
    return (out if mask is None else out.masked_fill(blind_rows(mask), 0.0)), None


def torch_lse_refusals(request: AttentionRequest) -> list[str]:
    """torch's own fused kernels, called below `scaled_dot_product_attention` for their LSE."""
    reasons = _exact(request)
    if not request.lse:
        reasons.append("no LSE is wanted")
    if request.grad:
        reasons.append("its LSE has no backward pass")
    if request.device not in ("cpu", "cuda"):
        reasons.append(f"it runs on cpu and cuda, the tensors are on {request.device}")
    if request.head_dim != request.value_dim:
        reasons.append(f"head_dim {request.head_dim} and value dim {request.value_dim} differ")
    if request.causal and request.q_len != request.k_len:
        reasons.append("its causal mask differs where lengths differ")
    if request.device == "cuda" and request.dtype == torch.float64:
        reasons.append("dtype is float64")
    if request.device == "cuda" and request.head_dim % 8:
        reasons.append(f"head_dim {request.head_dim} is no multiple of 8")
    if 0 in (request.q_len, request.k_len):
        reasons.append("a length is zero")
    return reasons


def run_torch_lse(call: Inputs) -> Answer:
    group = call.q.shape[1] // call.k.shape[1]
    k, v = (t.repeat_interleave(group, 1) if group > 1 else t for t in (call.k, call.v))
    mask = None
    if call.mask is not None:
        mask = joined(call.mask, call.causal, call.q.shape[2], k.shape[2], 0, call.q.device)
    causal = call.causal and mask is None
    blind = None if mask is None else blind_rows(mask)
    bias = None if mask is None else _additive(mask, call.q.dtype)
    if call.q.device.type == "cpu":
        out, lse = aten._scaled_dot_product_flash_attention_for_cpu(
            call.q, k, v, 0.0, causal, attn_mask=bias, scale=call.scale
        )
    else:
        out, lse = _run_efficient(call, k, v, bias, causal)
    lse = lse.float()
    if blind is None:
        return out, lse
    return out.masked_fill(blind, 0.0), lse.masked_fill(blind[..., 0], float("-inf"))


def _run_efficient(
    call: Inputs, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    if bias is not None:
        bias = _aligned(bias.expand(call.q.shape[0], call.q.shape[1], call.q.shape[2], k.shape[2]))
    out, lse, _, _ = aten._scaled_dot_product_efficient_attention(
        call.q, k, v, bias, True, 0.0, causal, scale=call.scale
    )
    return out, lse[..., : call.q.shape[2]]


def _aligned(bias: Tensor) -> Tensor:
    """The kernel reads rows that start on 16-byte boundaries: pad the storage, keep the shape."""
    length = bias.shape[-1]
    return functional.pad(bias, (0, -length % 16))[..., :length]


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Additive form; a finite floor, since a row of -inf alone would give NaN in the kernel."""
    floor = torch.finfo(dtype).min
    if mask.dtype != torch.bool:
        return as_4d(mask).to(dtype).clamp_min(floor)
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, floor)


def run_reference(call: Inputs) -> Answer:
    wide = [t if t.dtype == torch.float64 else t.float() for t in (call.q, call.k, call.v)]
    out, lse = reference.attention(wide[0], wide[1], wide[2], call.mask, call.causal, call.scale)
    return out.to(call.q.dtype), lse.float() if call.lse else None


def run_sage(emulated: bool, call: Inputs) -> Answer:
    kv = sage.prepare(call.k, call.v, call.precision, emulated)
    out, lse = sage.attend(
        call.q, kv, call.mask, call.causal, 0, call.scale, call.q.dtype, emulated
    )
    return out, lse if call.lse else None


def _gqa(call: Inputs) -> bool:
    return call.q.shape[1] != call.k.shape[1]


BACKENDS: tuple[Backend, ...] = (
    Backend("sage", sage.triton_refusals, lambda call: run_sage(False, call)),
    Backend("sage_emulated", sage.emulated_refusals, lambda call: run_sage(True, call)),
    Backend("flash3", flash3_refusals, lambda call: _run_flash("flash_attn_interface", call)),
    Backend("flash2", flash2_refusals, lambda call: _run_flash("flash_attn", call)),
    Backend("sdpa", sdpa_refusals, run_sdpa),
    Backend("torch_lse", torch_lse_refusals, run_torch_lse),
    Backend("reference", _exact, run_reference),
)
"""In order of preference: the first without a refusal answers."""
