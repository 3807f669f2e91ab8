"""The bench's cases: for each kernel its inputs, a call, its theoretical cost, the exact answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import attention as torch_attention
from torch.nn import functional

from . import norms, reference
from .attention import attention
from .costs import Cost, attention_cost, norm_cost
from .linear import LINEAR_FORMATS, QuantisedWeight, quantise_weight, quantised_linear
from .microscale import FORMATS, dequantise, quantise
from .request import FP8, FULL, INT8, Precision
from .tiles import Tiling, tiled_decode

HEADS, DIM, CHANNELS = 4, 128, 1536


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    shape: str
    run: Callable[[], Tensor]
    expected: Tensor
    cost: Cost
    bound_by: Literal["compute", "memory"]


def cases(device: torch.device, length: int) -> list[Case]:
    """Every kernel's case, in bfloat16 on CUDA and float32 elsewhere."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    return [
        *_attention_cases(device, length, dtype),
        *_norm_cases(device, length, dtype),
        *_linear_cases(device, length, dtype),
        *_format_cases(device, length),
        *_tile_cases(device, dtype),
    ]


def biased_qkv(
    length: int, dim: int, heads: int, outliers: bool = True, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """float32 (1, heads, length, dim) shaped like a DiT's: a bias per channel on q, k and v, and
    with `outliers` four channels several times larger.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(rows: int) -> Tensor:
        return torch.randn(1, heads, rows, dim, generator=generator)

    q, k, v = normal(length), normal(length), normal(length)
    q, k, v = q + normal(1) * 2, k + normal(1) * 5, v + normal(1)
    if outliers:
        channels = torch.randint(0, dim, (4,), generator=generator)
        q[..., channels] *= 3
        k[..., channels] *= 6
        v[..., channels] *= 8
    return q, k, v


def _attention_cases(device: torch.device, length: int, dtype: torch.dtype) -> list[Case]:
    q, k, v = (t.to(device, dtype) for t in biased_qkv(length, DIM, HEADS))
    expected = functional.scaled_dot_product_attention(q.float(), k.float(), v.float())
    shape = f"1x{HEADS}x{length}x{DIM} {str(dtype).removeprefix('torch.')}"

    def case(name: str, run: Callable[[], Tensor], precision: Precision = FULL) -> Case:
        width = dtype.itemsize
        cost = attention_cost(1, HEADS, HEADS, length, length, DIM, precision, False, width)
        return Case(name, shape, run, expected, cost, "compute")

    def ours(precision: Precision, backend: str | None) -> Callable[[], Tensor]:
        return lambda: attention(q, k, v, precision=precision, backend=backend)

    named = {"int8 qk, fp8 pv": INT8, "fp8 qk, fp8 pv": FP8, "int8 qk, full pv": Precision("int8")}
    named["int8 qk, fp8 pv, no smoothing"] = Precision("int8", "fp8", smooth_k=False)
    found = [case("attention auto, full", ours(FULL, None))]
    found += [case(f"attention {name}", ours(one, None), one) for name, one in named.items()]
    found += [case(f"attention {name}", ours(FULL, name)) for name in ("sdpa", "flash2", "flash3")]
    found.append(case("attention cudnn (torch)", _cudnn(q, k, v)))
    return found


def _cudnn(q: Tensor, k: Tensor, v: Tensor) -> Callable[[], Tensor]:
    def run() -> Tensor:
        with torch_attention.sdpa_kernel(torch_attention.SDPBackend.CUDNN_ATTENTION):
            return functional.scaled_dot_product_attention(q, k, v)

    return run


def _norm_cases(device: torch.device, length: int, dtype: torch.dtype) -> list[Case]:
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(device, dtype)

    x, residual = normal(1, length, CHANNELS), normal(1, length, CHANNELS)
    gate, shift, scale = (normal(1, 1, CHANNELS) for _ in range(3))
    wide = [t.double() for t in (x, residual, gate, shift, scale)]
    expected = reference.gate_residual_norm_modulate(wide[0], wide[1], wide[2], wide[3], wide[4])[1]
    cost = norm_cost(1, length, CHANNELS, dtype.itemsize)
    shape = f"1x{length}x{CHANNELS}"

    def fused() -> Tensor:
        return norms.gate_residual_norm_modulate(x, residual, gate, shift, scale)[1]

    def eager() -> Tensor:
        hidden = residual + gate * x
        return functional.layer_norm(hidden, (CHANNELS,), eps=1e-6) * (1 + scale) + shift

    return [
        Case("gate+residual+norm+modulate", shape, fused, expected, cost, "memory"),
        Case("the same, torch eager", shape, eager, expected, cost, "memory"),
        _rope_case(normal, device, length, dtype),
    ]


def _rope_case(
    normal: Callable[..., Tensor], device: torch.device, length: int, dtype: torch.dtype
) -> Case:
    q, weight = normal(1, HEADS, length, DIM), normal(DIM)
    angles = torch.outer(torch.arange(length), 0.01 ** torch.linspace(0, 1, DIM // 2)).to(device)
    cos, sin = angles.cos(), angles.sin()
    expected = reference.norm_rope(q.double(), weight.double(), cos.double(), sin.double())
    cost = Cost(14 * q.numel(), 2 * 2 * q.numel() * dtype.itemsize)

    def run() -> Tensor:
        return norms.qk_norm_rope(q, q, weight, weight, cos, sin)[0]

    return Case("qk norm + rope", f"1x{HEADS}x{length}x{DIM}", run, expected, cost, "memory")


def _linear_cases(device: torch.device, length: int, dtype: torch.dtype) -> list[Case]:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(length, CHANNELS, generator=generator).to(device, dtype)
    weight = torch.randn(CHANNELS, CHANNELS, generator=generator).to(device, dtype) * 0.02
    expected = x.double() @ weight.double().T
    cost = Cost(2 * length * CHANNELS**2, (2 * x.numel() + weight.numel()) * dtype.itemsize)
    shape = f"{length}x{CHANNELS}x{CHANNELS}"
    found = [
        Case("linear full", shape, lambda: functional.linear(x, weight), expected, cost, "compute")
    ]
    for form in LINEAR_FORMATS:
        packed = quantise_weight(weight, form)

        found.append(Case(f"linear {form}", shape, _linear(x, packed), expected, cost, "compute"))
    return found


def _linear(x: Tensor, weight: QuantisedWeight) -> Callable[[], Tensor]:
    return lambda: quantised_linear(x, weight)


def _format_cases(device: torch.device, length: int) -> list[Case]:
    x = torch.randn(length, CHANNELS, generator=torch.Generator().manual_seed(3)).to(device)
    cost = Cost(0, 2 * x.nbytes)
    return [
        Case(
            f"round trip {name}",
            f"{length}x{CHANNELS}",
            lambda form=form: dequantise(quantise(x, form)),
            x,
            cost,
            "memory",
        )
        for name, form in FORMATS.items()
    ]


def _tile_cases(device: torch.device, dtype: torch.dtype) -> list[Case]:
    """A decoder of convolutions, whole and in tiles whose halo is as wide as its sight."""
    generator = torch.Generator().manual_seed(4)
    net = nn.Sequential(
        nn.Conv2d(16, 64, 3, padding=1), nn.SiLU(), nn.Upsample(scale_factor=8),
        nn.Conv2d(64, 3, 3, padding=1),
    ).to(device, dtype)  # fmt: skip
    side = 96 if device.type == "cuda" else 24
    latents = torch.randn(1, 16, side, side, generator=generator).to(device, dtype)
    with torch.inference_mode():
        for weight in net.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
        expected: Tensor = net(latents)
    cost = Cost(2 * side**2 * (16 * 64 * 9 + 64 * 64 * 3 * 9), latents.nbytes + expected.nbytes)
    tiling = Tiling(side // 3, 2, 2)
    shape = f"1x16x{side}x{side}"
    return [
        Case("decode whole", shape, lambda: net(latents), expected, cost, "memory"),
        Case(
            "decode in tiles",
            shape,
            lambda: tiled_decode(net, latents, tiling, 8),
            expected,
            cost,
            "memory",
        ),
    ]
