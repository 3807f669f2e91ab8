"""What one attention call asks for: the facts that decide which backend may answer it."""

import importlib.util
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor

QkFormat = Literal["full", "int8", "fp8"]
PvFormat = Literal["full", "fp8"]
MaskKind = Literal["none", "bool", "additive"]
QK_FORMATS: tuple[QkFormat, ...] = ("full", "int8", "fp8")
MASK_KINDS: tuple[MaskKind, ...] = ("none", "bool", "additive")
PV_FORMATS: tuple[PvFormat, ...] = ("full", "fp8")


@dataclass(frozen=True, slots=True)
class Precision:
    """Number formats of the two matrix products; "full" is the dtype of the inputs.

    `smooth_k` takes the mean over the sequence off K before it is quantised. It changes nothing
    but the rounding error, and has no effect when QK is "full".
    """

    qk: QkFormat = "full"
    pv: PvFormat = "full"
    smooth_k: bool = True

    def __post_init__(self) -> None:
        if self.qk not in QK_FORMATS:
            raise ValueError(
                f"precision.qk: {self.qk!r} is unknown; known: {', '.join(QK_FORMATS)}"
            )
        if self.pv not in PV_FORMATS:
            raise ValueError(
                f"precision.pv: {self.pv!r} is unknown; known: {', '.join(PV_FORMATS)}"
            )

    @property
    def quantised(self) -> bool:
        return self.qk != "full" or self.pv != "full"


FULL = Precision()
INT8 = Precision(qk="int8", pv="fp8")
FP8 = Precision(qk="fp8", pv="fp8")


@dataclass(frozen=True, slots=True)
class AttentionRequest:
    """The shape of one call. `capability` is the CUDA compute capability, None off CUDA."""

    device: str
    capability: tuple[int, int] | None
    dtype: torch.dtype
    heads: int
    kv_heads: int
    q_len: int
    k_len: int
    head_dim: int
    value_dim: int
    mask: MaskKind
    causal: bool
    lse: bool
    grad: bool
    precision: Precision


@cache
def installed(package: str) -> bool:
    """Whether a package is there; looked up once, since every call of every layer asks."""
    return importlib.util.find_spec(package) is not None


def mask_kind(mask: Tensor | None) -> MaskKind:
    if mask is None:
        return "none"
    return "bool" if mask.dtype == torch.bool else "additive"


def describe(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    causal: bool,
    lse: bool,
    precision: Precision,
) -> AttentionRequest:
    """Facts of a call whose tensors passed `check_shapes`."""
    on_cuda = q.device.type == "cuda"
    wants_grad = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))
    return AttentionRequest(
        device=q.device.type,
        capability=torch.cuda.get_device_capability(q.device) if on_cuda else None,
        dtype=q.dtype,
        heads=q.shape[1],
        kv_heads=k.shape[1],
        q_len=q.shape[2],
        k_len=k.shape[2],
        head_dim=q.shape[3],
        value_dim=v.shape[3],
        mask=mask_kind(mask),
        causal=causal,
        lse=lse,
        grad=wants_grad,
        precision=precision,
    )


def check_shapes(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> None:
    """Raise ValueError with every fault of the tensors: rank, agreement, dtype, device, mask."""
    faults = [
        f"{name} must be (batch, heads, length, head_dim), got {tuple(t.shape)}"
        for name, t in (("q", q), ("k", k), ("v", v))
        if t.dim() != 4
    ]
    if not faults:
        faults = _disagreements(q, k, v)
    if not faults and mask is not None:
        faults = _mask_faults(mask, (q.shape[0], q.shape[1], q.shape[2], k.shape[2]), q.device)
    if faults:
        raise ValueError("attention: " + "; ".join(faults))


def _disagreements(q: Tensor, k: Tensor, v: Tensor) -> list[str]:
    faults: list[str] = []
    if not q.shape[0] == k.shape[0] == v.shape[0]:
        faults.append(f"batch differs: q {q.shape[0]}, k {k.shape[0]}, v {v.shape[0]}")
    if k.shape[1:3] != v.shape[1:3]:
        faults.append(f"k and v differ in heads or length: {tuple(k.shape)}, {tuple(v.shape)}")
    if q.shape[3] != k.shape[3]:
        faults.append(f"head_dim differs: q {q.shape[3]}, k {k.shape[3]}")
    if k.shape[1] == 0 or q.shape[1] % max(k.shape[1], 1):
        faults.append(f"{q.shape[1]} query heads are no multiple of {k.shape[1]} key heads")
    if not q.dtype == k.dtype == v.dtype:
        faults.append(f"dtypes differ: q {q.dtype}, k {k.dtype}, v {v.dtype}")
    elif not q.dtype.is_floating_point:
        faults.append(f"dtype must be floating point, got {q.dtype}")
    if not q.device == k.device == v.device:
        faults.append(f"devices differ: q {q.device}, k {k.device}, v {v.device}")
    return faults


def _mask_faults(mask: Tensor, full: tuple[int, int, int, int], device: torch.device) -> list[str]:
    faults: list[str] = []
    if mask.dtype != torch.bool and not mask.dtype.is_floating_point:
        faults.append(f"mask must be bool (True attends) or additive float, got {mask.dtype}")
    if mask.device != device:
        faults.append(f"mask is on {mask.device}, q on {device}")
    sizes = tuple(mask.shape)
    fits = 2 <= len(sizes) <= 4 and all(
        size in (1, whole) for size, whole in zip(reversed(sizes), reversed(full), strict=False)
    )
    if not fits:
        faults.append(f"mask {sizes} does not broadcast to (batch, heads, q_len, k_len) = {full}")
    return faults
