"""Triton kernels in Triton's interpreter; run by `test_triton.py` with TRITON_INTERPRET=1.

Never bfloat16 here: the interpreter multiplies its bit patterns.
"""

import math
import os

import pytest
import torch
from torch import Tensor

from motet.kernels import (
    emulate,
    norms,
    norms_triton,
    quantise_triton,
    reference,
    sage,
    sage_triton,
)
from motet.kernels.attention import attention
from motet.kernels.quantised import quantise_kv
from motet.kernels.request import FP8, INT8, Precision
from motet.kernels.tritonlang import interpreted, tl, triton

pytestmark = [
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="needs the interpreter"),
    pytest.mark.timeout(120),
]


def tensors(
    heads: int, kv_heads: int, q_len: int, k_len: int, dim: int, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """float16 with a bias per channel, as in a DiT; a batch of two where there are four heads."""
    g = torch.Generator().manual_seed(seed)

    def normal(h: int, n: int) -> Tensor:
        return torch.randn(2 if heads == 4 else 1, h, n, dim, generator=g)

    q = normal(heads, q_len) + 2 * normal(heads, 1)
    k = normal(kv_heads, k_len) + 5 * normal(kv_heads, 1)
    return q.half(), k.half(), (normal(kv_heads, k_len) + normal(kv_heads, 1)).half()


def relative(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).abs().sum() / b.double().abs().sum())


def test_interpreter_is_on() -> None:
    assert interpreted()
    assert sage.interpreter_on()


@triton.jit
def _cast(x_ptr: "object", out_ptr: "object", n: tl.constexpr, SNAP: tl.constexpr) -> None:
    i = tl.arange(0, n)
    cast = quantise_triton.to_e4m3(tl.load(x_ptr + i), SNAP)
    tl.store(out_ptr + i, cast.to(tl.float32))


def test_cast_to_e4m3_is_torchs() -> None:
    x = torch.cat([torch.linspace(-500, 500, 4000), torch.linspace(-0.02, 0.02, 90)])
    x = torch.cat([x, torch.tensor([0.0, 127.9, 448.0, 460.0, 1e-9, 0.5 * 2**-9])])
    out = torch.empty_like(x)
    _cast[(1,)](x, out, 4096, True)
    torch.testing.assert_close(
        out, x.clamp(-448, 448).to(torch.float8_e4m3fn).float(), rtol=0, atol=0
    )


@pytest.mark.parametrize("precision", [INT8, FP8, Precision("int8", "fp8", smooth_k=False)])
@pytest.mark.parametrize(("length", "dim"), [(150, 64), (37, 96)])
def test_quantised_keys_and_values_are_the_twins(
    precision: Precision, length: int, dim: int
) -> None:
    _, k, v = tensors(2, 2, 1, length, dim)
    v[:, 1] = 0
    fast, slow = quantise_triton.quantise_kv(k, v, precision), quantise_kv(k, v, precision)
    for a, b in zip(fast.tensors(), slow.tensors(), strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a.float(), b.float(), rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_quantising_keeps_nan() -> None:
    q, k, _ = tensors(2, 2, 40, 40, 64)
    k[0, 0, 3, 5] = math.nan
    q[0, 1, 7, 9] = math.inf
    _, k_scales = quantise_triton.quantise_rows(k, quantise_triton.K_GROUPS, torch.int8, None)
    _, q_scales, _ = quantise_triton.quantise_queries(q, torch.int8, None, 1.0)
    assert k_scales.isnan().sum() == 1
    assert q_scales.isnan().sum() == 1


CASES = [
    (4, 2, 100, 150, 64, INT8, None, False, 0),
    (2, 2, 70, 70, 64, FP8, None, False, 0),
    (2, 1, 65, 129, 96, INT8, None, True, 20),
    (2, 2, 33, 64, 128, INT8, None, True, -20),
    (2, 2, 40, 70, 80, Precision("int8"), None, False, 0),
    (2, 1, 40, 70, 128, Precision("full", "fp8"), None, False, 0),
    (1, 1, 40, 70, 256, INT8, None, False, 0),
    (1, 1, 40, 50, 160, INT8, "bool", True, 10),
    (4, 2, 100, 90, 64, INT8, "bool", False, 0),
    (2, 2, 40, 90, 64, INT8, "keys", True, 50),
    (2, 1, 40, 90, 64, INT8, "additive", False, 0),
    (1, 1, 1, 1, 64, INT8, None, False, 0),
]


@pytest.mark.parametrize(
    ("heads", "kv_heads", "q_len", "k_len", "dim", "precision", "mask", "causal", "offset"), CASES
)
def test_attention_is_its_twin_and_near_the_truth(
    heads: int,
    kv_heads: int,
    q_len: int,
    k_len: int,
    dim: int,
    precision: Precision,
    mask: str | None,
    causal: bool,
    offset: int,
) -> None:
    q, k, v = tensors(heads, kv_heads, q_len, k_len, dim)
    g = torch.Generator().manual_seed(5)
    full = {
        None: None,
        "bool": torch.rand(q.shape[0], 1, q_len, k_len, generator=g) > 0.3,
        "keys": (torch.arange(k_len) < k_len - 9).expand(q.shape[0], 1, 1, k_len),
        "additive": torch.randn(1, heads, q_len, k_len, generator=g),
    }[mask]
    if mask == "bool" and full is not None:
        full[:, :, 3] = False
    kv = quantise_triton.quantise_kv(k, v, precision)
    scale = dim**-0.5
    out, lse = sage_triton.attend(q, kv, full, causal, offset, scale, torch.float32)
    twin, twin_lse = emulate.attend(
        q, quantise_kv(k, v, precision), full, causal, offset, scale, torch.float32
    )
    truth, true_lse = reference.attention(
        q.double(), k.double(), v.double(), full, causal, scale, offset
    )
    assert relative(out, twin) < 1e-3
    assert relative(out, truth) < (0.035 if precision.qk == "fp8" else 0.025)
    torch.testing.assert_close(lse, twin_lse, rtol=0, atol=1e-4)
    near = 0.3 if precision.qk == "fp8" else 0.1
    torch.testing.assert_close(lse.double(), true_lse, rtol=0, atol=near)
    assert torch.equal(lse == -math.inf, true_lse == -math.inf)


def test_the_public_call_takes_the_kernel_and_strided_inputs() -> None:
    q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in tensors(2, 2, 50, 60, 64))
    out, lse = attention(q, k, v, return_lse=True, precision=INT8, backend="sage")
    truth, true_lse = reference.attention(q.double(), k.double(), v.double())
    assert out.dtype == torch.float16
    assert relative(out, truth) < 0.02
    torch.testing.assert_close(lse.double(), true_lse, rtol=0, atol=0.1)


@pytest.mark.parametrize("precision", [INT8, Precision("int8", "full"), Precision("full", "fp8")])
def test_rows_may_lie_apart_in_every_format(precision: Precision) -> None:
    apart = [t.mT.contiguous().mT for t in tensors(2, 2, 50, 60, 64)]
    out = attention(*apart, precision=precision, backend="sage")
    truth, _ = reference.attention(*(t.double() for t in apart))
    assert relative(out, truth) < 0.02


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("per_token", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_gate_residual_norm_modulate(kind: norms.Kind, per_token: bool, affine: bool) -> None:
    g = torch.Generator().manual_seed(1)
    x, residual = torch.randn(2, 5, 48, generator=g), torch.randn(2, 5, 48, generator=g) * 3 + 1
    rows = torch.randn(3, 2, 5 if per_token else 1, 48, generator=g)
    # Columns, whose numbers don't lie next to each other.
    weight, bias = torch.randn(48, 2, generator=g).T if affine else (None, None)
    got = norms.gate_residual_norm_modulate(x, residual, *rows, weight, bias, 1e-6, kind)
    wide = [None if t is None else t.double() for t in (x, residual, *rows, weight, bias)]
    expected = reference.gate_residual_norm_modulate(*wide, 1e-6, kind)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=0, atol=1e-5)


@pytest.mark.parametrize("interleaved", [True, False])
def test_qk_norm_rope(interleaved: bool) -> None:
    q, k, _ = (t.float() for t in tensors(3, 1, 7, 7, 40))
    weights = torch.randn(40, 2, generator=torch.Generator().manual_seed(2)).T
    angles = torch.outer(torch.arange(7), torch.linspace(1, 0.01, 20))
    turn = (angles.cos(), angles.sin())
    wide = [t.double() for t in turn]
    got = norms.qk_norm_rope(q, k, *weights, *turn, 1e-6, interleaved)
    for a, x, weight in zip(got, (q, k), weights, strict=True):
        b = reference.norm_rope(x.double(), weight.double(), *wide, 1e-6, interleaved)
        torch.testing.assert_close(a.double(), b, rtol=0, atol=1e-5)


def test_the_fused_kernels_ran() -> None:
    """The two tests above are of Triton, not of the fallback."""
    x = torch.randn(1, 2, 8)
    assert norms._fused(x)
    learned = torch.ones(8, requires_grad=True)
    assert not norms._fused(x, None, learned), "the kernels have no backward pass"
    with torch.no_grad():
        assert norms._fused(x, None, learned)
    assert isinstance(norms_triton.norm_rope_kernel, triton.runtime.interpreter.InterpretedFunction)
