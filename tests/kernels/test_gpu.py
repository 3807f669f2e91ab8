"""What only a GPU can show: the compiled kernels' answers. For speed see the bench."""

import pytest
import torch
from torch import Tensor

from motet.kernels import norms, reference
from motet.kernels.attention import attention
from motet.kernels.bench import errors
from motet.kernels.benchcases import biased_qkv
from motet.kernels.linear import LINEAR_FORMATS, quantise_weight, quantised_linear
from motet.kernels.quantised import quantise_kv
from motet.kernels.request import FP8, INT8, Precision

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
    pytest.mark.timeout(120),
]


def on_gpu(dim: int, q_len: int = 1000, k_len: int = 1100) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = biased_qkv(max(q_len, k_len), dim, 4, outliers=False)
    cut = q[:, :, :q_len], k[:, :2, :k_len], v[:, :2, :k_len]
    return tuple(t.to("cuda", torch.bfloat16) for t in cut)


def truth(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    return reference.attention(q.double(), k.double(), v.double(), mask, causal)


@pytest.mark.parametrize("dim", [64, 80, 96, 128, 160, 256])
@pytest.mark.parametrize(
    "precision", [INT8, FP8, Precision("int8"), Precision("full", "fp8")], ids=str
)
def test_8_bit_attention(dim: int, precision: Precision) -> None:
    q, k, v = on_gpu(dim)
    out, lse = attention(q, k, v, return_lse=True, precision=precision, backend="sage")
    expected, expected_lse = truth(q, k, v, None, False)
    cosine, relative = errors(out, expected)
    assert cosine > 0.999
    assert relative < 0.03
    assert (lse - expected_lse).abs().mean() < 0.08


@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["bool", "keys", "additive"])
def test_8_bit_attention_with_masks(dim: int, causal: bool, kind: str) -> None:
    q, k, v = on_gpu(dim, 300, 333)
    mask = {
        "bool": torch.rand(1, 4, 300, 333, device="cuda") > 0.3,
        "keys": (torch.arange(333, device="cuda") < 200)[None, None, None],
        "additive": torch.randn(1, 1, 300, 333, device="cuda"),
    }[kind]
    if kind == "bool":
        mask[:, :, 7] = False
    out = attention(q, k, v, mask, causal, precision=INT8, backend="sage")
    assert out.isfinite().all()
    assert errors(out, truth(q, k, v, mask, causal)[0])[1] < 0.04


def test_gpu_quantises_as_the_twin_does() -> None:
    from motet.kernels import quantise_triton

    _, k, v = on_gpu(96)
    fast = quantise_triton.quantise_kv(k, v, INT8)
    slow = quantise_kv(k, v, INT8)
    for a, b in zip(fast.tensors(), slow.tensors(), strict=True):
        different = (a.float() - b.float()).abs() > 1e-6
        assert different.float().mean() < 1e-3


@pytest.mark.parametrize("masked", [False, True])
def test_lse_of_torchs_fused_kernel(masked: bool) -> None:
    q, k, v = on_gpu(64, 300, 333)
    mask = torch.rand(1, 1, 300, 333, device="cuda") > 0.3 if masked else None
    out, lse = attention(q, k, v, mask, return_lse=True, backend="torch_lse")
    expected, expected_lse = truth(q, k, v, mask, False)
    assert errors(out, expected)[1] < 0.01
    torch.testing.assert_close(lse.double(), expected_lse, rtol=0, atol=0.02)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_fused_norm(kind: norms.Kind) -> None:
    x, residual = torch.randn(2, 2, 777, 3072, device="cuda").to(torch.bfloat16)
    rows = torch.randn(3, 2, 1, 3072, device="cuda").to(torch.bfloat16)
    got = norms.gate_residual_norm_modulate(x, residual, *rows, kind=kind)
    wide = [t.double() for t in (x, residual, *rows)]
    expected = reference.gate_residual_norm_modulate(*wide, kind=kind)
    for a, b in zip(got, expected, strict=True):
        assert errors(a, b)[1] < 0.005


def test_fused_rope() -> None:
    q, k, _ = on_gpu(128)
    weight = torch.randn(128, device="cuda")
    angles = torch.outer(torch.arange(1000.0), torch.linspace(1, 0.01, 64)).cuda()
    got, _ = norms.qk_norm_rope(q, q, weight, weight, angles.cos(), angles.sin())
    turn = [t.double() for t in (angles.cos(), angles.sin())]
    assert errors(got, reference.norm_rope(q.double(), weight.double(), *turn))[1] < 0.005
    assert k.is_cuda


@pytest.mark.parametrize("form", LINEAR_FORMATS)
def test_linear(form: str) -> None:
    x = torch.randn(333, 512, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(256, 512, device="cuda", dtype=torch.bfloat16)
    got = quantised_linear(x, quantise_weight(weight, form))
    expected = x.double() @ weight.double().T
    budget = {"int8": 0.02, "fp8": 0.05, "mxfp8": 0.05, "mxfp4": 0.2, "nvfp4": 0.18}[form]
    assert errors(got, expected)[1] < budget
