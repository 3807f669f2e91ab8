"""The two fused patterns around a DiT's attention: one pass over memory instead of five.

`gate_residual_norm_modulate`: h = residual + gate x; y = norm(h) (1 + scale) + shift; both come
back. `qk_norm_rope`: q and k through RMS norm over each head's channels and the rotation. Twins in
`reference.py`. On CUDA they are Triton kernels, elsewhere the twins themselves. Fusing only the
modulation loses to torch.compile, which fuses that by itself; the whole pattern is the point.
Sources: DiT (arXiv 2212.09748, section 3.2, adaLN), RoFormer (arXiv 2104.09864).
"""

import importlib
from types import ModuleType
from typing import Literal

import torch
from torch import Tensor

from . import reference
from .request import installed
from .sage import interpreter_on

Kind = Literal["layer", "rms"]


def gate_residual_norm_modulate(
    x: Tensor,
    residual: Tensor,
    gate: Tensor,
    shift: Tensor,
    scale: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-6,
    kind: Kind = "layer",
) -> tuple[Tensor, Tensor]:
    """(h, y), both (batch, tokens, channels) in the dtype of x; sums are taken in float32.

    gate, shift and scale are (batch, 1, channels) or (batch, tokens, channels).
    """
    _check(x, residual, {"gate": gate, "shift": shift, "scale": scale})
    if _fused(x, residual, gate, shift, scale, weight, bias):
        return _triton().gate_residual_norm_modulate(
            x, residual, gate, shift, scale, weight, bias, eps, kind
        )
    wide = [t.float() for t in (x, residual, gate, shift, scale)] if _narrow(x) else None
    inputs = [x, residual, gate, shift, scale] if wide is None else wide
    hidden, out = reference.gate_residual_norm_modulate(
        inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], weight, bias, eps, kind
    )
    return hidden.to(x.dtype), out.to(x.dtype)


def qk_norm_rope(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor,
    k_weight: Tensor,
    cos: Tensor,
    sin: Tensor,
    eps: float = 1e-6,
    interleaved: bool = True,
) -> tuple[Tensor, Tensor]:
    """q and k (batch, heads, length, dim) normalised and rotated; cos, sin (length, dim / 2)."""
    for name, x in (("q", q), ("k", k)):
        if x.dim() != 4 or cos.shape != sin.shape or cos.shape != (x.shape[2], x.shape[3] / 2):
            raise ValueError(
                f"qk_norm_rope: {name} {tuple(x.shape)} needs cos and sin of (length, dim / 2), "
                f"got {tuple(cos.shape)} and {tuple(sin.shape)}"
            )
    if _fused(q, k, q_weight, k_weight):
        module = _triton()
        return (
            module.norm_rope(q, q_weight, cos, sin, eps, interleaved),
            module.norm_rope(k, k_weight, cos, sin, eps, interleaved),
        )
    return (
        _norm_rope(q, q_weight, cos, sin, eps, interleaved),
        _norm_rope(k, k_weight, cos, sin, eps, interleaved),
    )


def _norm_rope(
    x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, eps: float, interleaved: bool
) -> Tensor:
    wide = x.float() if _narrow(x) else x
    return reference.norm_rope(wide, weight, cos, sin, eps, interleaved).to(x.dtype)


def _check(x: Tensor, residual: Tensor, rows: dict[str, Tensor]) -> None:
    faults = [
        f"{name} {tuple(t.shape)}"
        for name, t in rows.items()
        if t.dim() != 3 or t.shape not in ((x.shape[0], 1, x.shape[-1]), x.shape)
    ]
    if x.dim() != 3 or residual.shape != x.shape:
        faults.insert(0, f"residual {tuple(residual.shape)}")
    if faults:
        raise ValueError(
            f"gate_residual_norm_modulate: x is {tuple(x.shape)} (batch, tokens, channels), "
            f"does not fit: {', '.join(faults)}"
        )


def _narrow(x: Tensor) -> bool:
    return x.dtype in (torch.float16, torch.bfloat16)


def _fused(x: Tensor, *others: Tensor | None) -> bool:
    """The kernels run forward only, on CUDA or in Triton's interpreter."""
    on_gpu = x.device.type == "cuda" or interpreter_on()
    learns = any(t is not None and t.requires_grad for t in (x, *others))
    forward = not (learns and torch.is_grad_enabled())
    wanted = on_gpu and forward and x.numel() > 0 and x.dtype != torch.float64
    return wanted and installed("triton")


def _triton() -> ModuleType:
    return importlib.import_module(".norms_triton", __package__)
