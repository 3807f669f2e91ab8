"""Keys and values as 8-bit attention reads them, and as a ring sends them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from .fp8 import K_GROUPS, quantise_channels, quantise_rows
from .request import Precision

LENGTH_MULTIPLE = 16
"""V's rows are padded to this, so that each channel starts on a 16-byte boundary."""

QK_DTYPES: dict[str, torch.dtype] = {"int8": torch.int8, "fp8": torch.float8_e4m3fn}


@dataclass(frozen=True, slots=True)
class QuantisedKV:
    """One shard of keys and values.

    k (batch, heads, length, dim) in int8, E4M3 or the input dtype; k_scale (batch, heads, groups)
    and k_mean (batch, heads, dim), float32, None where QK is not quantised (or not smoothed).
    v (batch, heads, value_dim, padded length) in E4M3 with v_scale (batch, heads, value_dim), or
    (batch, heads, length, value_dim) in the input dtype with v_scale None.
    """

    k: Tensor
    v: Tensor
    k_scale: Tensor | None
    k_mean: Tensor | None
    v_scale: Tensor | None

    @property
    def heads(self) -> int:
        return self.k.shape[1]

    @property
    def length(self) -> int:
        return self.k.shape[2]

    @property
    def value_dim(self) -> int:
        return self.v.shape[3] if self.v_scale is None else self.v.shape[2]

    def tensors(self) -> list[Tensor]:
        """The parts that hold something, in a fixed order (what `from_tensors` reads back)."""
        parts = (self.k, self.v, self.k_scale, self.k_mean, self.v_scale)
        return [part for part in parts if part is not None]


def quantise_kv(k: Tensor, v: Tensor, precision: Precision) -> QuantisedKV:
    """Quantise in plain torch; `sage.prepare` picks the GPU kernels where there is a GPU."""
    mean = key_mean(k, precision)
    key, key_scale = k, None
    if precision.qk != "full":
        centred = k.float() if mean is None else k.float() - mean[:, :, None]
        key, key_scale = quantise_rows(centred, K_GROUPS, QK_DTYPES[precision.qk])
    value, value_scale = v, None
    if precision.pv == "fp8":
        value, value_scale = quantise_channels(v, LENGTH_MULTIPLE)
    return QuantisedKV(key, value, key_scale, mean, value_scale)


def key_mean(k: Tensor, precision: Precision) -> Tensor | None:
    """float32 (batch, heads, dim), the mean over the sequence, or None when K stays as it is."""
    if precision.qk == "full" or not precision.smooth_k:
        return None
    return k.sum(2, dtype=torch.float32) / max(k.shape[2], 1)


Spec = tuple[tuple[int, ...], torch.dtype]


def specs(
    batch: int,
    heads: int,
    length: int,
    dim: int,
    value_dim: int,
    dtype: torch.dtype,
    precision: Precision,
) -> list[Spec]:
    """Shapes and dtypes of `QuantisedKV.tensors()` for a shard of `length` rows."""
    quantised_qk, fp8_pv = precision.qk != "full", precision.pv == "fp8"
    padded = length + -length % LENGTH_MULTIPLE
    out: list[Spec] = [((batch, heads, length, dim), QK_DTYPES.get(precision.qk, dtype))]
    if fp8_pv:
        out.append(((batch, heads, value_dim, padded), torch.float8_e4m3fn))
    else:
        out.append(((batch, heads, length, value_dim), dtype))
    if quantised_qk:
        out.append(((batch, heads, K_GROUPS.scales(length)), torch.float32))
    if quantised_qk and precision.smooth_k:
        out.append(((batch, heads, dim), torch.float32))
    if fp8_pv:
        out.append(((batch, heads, value_dim), torch.float32))
    return out


def from_tensors(tensors: list[Tensor], precision: Precision) -> QuantisedKV:
    """Undo `tensors()`."""
    rest = list(tensors[2:])
    k_scale = rest.pop(0) if precision.qk != "full" else None
    k_mean = rest.pop(0) if precision.qk != "full" and precision.smooth_k else None
    v_scale = rest.pop(0) if precision.pv == "fp8" else None
    return QuantisedKV(tensors[0], tensors[1], k_scale, k_mean, v_scale)
