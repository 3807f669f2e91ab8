"""Choosing a backend, honouring every argument, and saying why none can."""

import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from motet.kernels import backends, reference, sage
from motet.kernels.attention import NoBackendError, attention, choose
from motet.kernels.request import FP8, FULL, INT8, AttentionRequest, Precision

HOPPER = AttentionRequest(
    device="cuda",
    capability=(9, 0),
    dtype=torch.bfloat16,
    heads=8,
    kv_heads=8,
    q_len=1024,
    k_len=1024,
    head_dim=128,
    value_dim=128,
    mask="none",
    causal=False,
    lse=False,
    grad=False,
    precision=FULL,
)


def only(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Whatever is installed here, these packages alone are."""
    for module in (backends, sage):
        monkeypatch.setattr(module, "installed", packages.__contains__)


def tensors(
    heads: int = 4, kv_heads: int = 2, q_len: int = 20, k_len: int = 33, dim: int = 16
) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    return (
        torch.randn(2, heads, q_len, dim, generator=g),
        torch.randn(2, kv_heads, k_len, dim, generator=g),
        torch.randn(2, kv_heads, k_len, dim, generator=g),
    )


def masks(kind: str, q_len: int, k_len: int) -> Tensor | None:
    g = torch.Generator().manual_seed(1)
    if kind == "none":
        return None
    if kind == "bool":
        mask = torch.rand(2, 1, q_len, k_len, generator=g) > 0.4
        mask[0, 0, 3] = False
        return mask
    if kind == "keys":
        return (torch.arange(k_len) < k_len // 2).expand(2, 1, 1, k_len)
    return torch.randn(4, q_len, k_len, generator=g)


@pytest.mark.parametrize("backend", ["sdpa", "torch_lse", "reference", "sage_emulated", None])
@pytest.mark.parametrize("mask", ["none", "bool", "keys", "additive"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("k_len", [20, 33])
def test_every_backend_honours_every_argument(
    backend: str | None, mask: str, causal: bool, k_len: int
) -> None:
    q, k, v = tensors(k_len=k_len)
    full = masks(mask, 20, k_len)
    expected, expected_lse = reference.attention(
        q.double(), k.double(), v.double(), full, causal, 0.4
    )
    lse_wanted = backend != "sdpa"
    precision = INT8 if backend == "sage_emulated" else FULL
    if backend == "torch_lse" and causal and k_len != 20:
        with pytest.raises(NoBackendError, match="causal mask differs where lengths differ"):
            attention(q, k, v, full, causal, 0.4, return_lse=True, backend=backend)
        return
    got = attention(
        q, k, v, full, causal, 0.4, return_lse=lse_wanted, precision=precision, backend=backend
    )
    out = got[0] if lse_wanted else got
    close = 0.2 if precision.quantised else 1e-5
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=close)
    if lse_wanted:
        assert got[1].dtype == torch.float32
        torch.testing.assert_close(got[1].double(), expected_lse, rtol=0, atol=close)


def test_a_mask_that_hides_half_of_the_keys_changes_the_answer() -> None:
    """A backend that lost its mask would pass a test of closeness to itself."""
    q, k, v = tensors(k_len=40)
    half = masks("keys", 20, 40)
    for precision in (FULL, INT8, FP8):
        out = attention(q, k, v, half, precision=precision)
        cut = attention(q, k[:, :, :20], v[:, :, :20], precision=precision)
        whole = attention(q, k, v, precision=precision)
        assert (out - whole).abs().mean() > 0.1
        assert (out - cut).abs().mean() < 0.1 * (out - whole).abs().mean()


def test_lse_on_cpu_comes_from_torchs_fused_kernel() -> None:
    q, k, v = tensors()
    request = replace(HOPPER, device="cpu", capability=None, dtype=torch.float32, lse=True)
    assert choose(request).name == "torch_lse"
    assert choose(replace(request, lse=False)).name == "sdpa"
    assert attention(q, k, v, return_lse=True, backend="torch_lse")[0].shape == q.shape


def test_empty_lengths() -> None:
    q, k, v = tensors(q_len=3, k_len=0)
    for precision in (FULL, INT8):
        out, lse = attention(q, k, v, return_lse=True, precision=precision)
        assert out.abs().max() == 0
        assert (lse == -math.inf).all()
    q, k, v = tensors(q_len=0)
    assert attention(q, k, v, precision=INT8).shape == (2, 4, 0, 16)


def test_gradients_flow_in_full_precision_and_are_refused_in_8_bits() -> None:
    q, k, v = tensors()
    q.requires_grad_()
    attention(q, k, v).sum().backward()
    assert q.grad is not None
    with pytest.raises(NoBackendError, match="no backward pass and an input requires grad"):
        attention(q, k, v, precision=INT8)
    with torch.no_grad():
        attention(q, k, v, precision=INT8)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "sdpa"),
        ({"lse": True}, "torch_lse"),
        ({"precision": INT8}, "sage"),
        ({"precision": FP8, "head_dim": 256, "value_dim": 256}, "sage"),
        ({"precision": INT8, "mask": "bool", "causal": True, "kv_heads": 2, "lse": True}, "sage"),
        ({"precision": INT8, "dtype": torch.float32}, "sage"),
        ({"precision": Precision("int8"), "capability": (8, 0)}, "sage"),
        ({"lse": True, "grad": True}, "reference"),
        ({"lse": True, "causal": True, "q_len": 5}, "reference"),
    ],
)
def test_choice_by_capability(
    change: dict[str, object], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, "triton")
    assert choose(replace(HOPPER, **change)).name == expected


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"capability": (8, 0)}, "sage: the GPU is sm_80, needs sm_89"),
        ({"head_dim": 512, "value_dim": 512}, "head_dim 512 is over 256"),
        ({"value_dim": 64}, "head_dim 128 and value dim 64 differ"),
        ({"dtype": torch.float64}, "sage: dtype is float64"),
        ({"grad": True}, "no backward pass"),
        (
            {"precision": Precision("int8"), "dtype": torch.float32},
            "a product in float32 would run as TF32",
        ),
        ({"device": "mps", "capability": None}, "the tensors are on mps, not on CUDA"),
    ],
)
def test_refusals_name_every_backend_and_its_reason(
    change: dict[str, object], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, "triton")
    with pytest.raises(NoBackendError) as caught:
        choose(replace(HOPPER, **({"precision": INT8} | change)))
    assert reason in str(caught.value)
    for name in ("sage", "sage_emulated", "flash3", "flash2", "sdpa", "torch_lse", "reference"):
        assert f"\n  {name}: " in str(caught.value)


def test_without_triton_8_bits_on_a_gpu_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch)
    with pytest.raises(NoBackendError, match="sage: triton is not installed"):
        choose(replace(HOPPER, precision=INT8))


@pytest.mark.parametrize(
    ("package", "name"), [("flash_attn_interface", "flash3"), ("flash_attn", "flash2")]
)
def test_flash_attention_where_installed(
    package: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Preferred on CUDA; its layout (batch, length, heads, dim) and its LSE are translated."""
    only(monkeypatch, package)
    assert choose(HOPPER).name == name
    assert choose(replace(HOPPER, mask="bool")).name == "sdpa"
    assert choose(replace(HOPPER, causal=True, q_len=5)).name == "sdpa"
    assert choose(replace(HOPPER, dtype=torch.float32)).name == "sdpa"

    def flash_attn_func(q, k, v, softmax_scale, causal, return_attn_probs):
        out, lse = reference.attention(
            *(t.transpose(1, 2) for t in (q, k, v)), None, causal, softmax_scale
        )
        return (out.transpose(1, 2), lse) if return_attn_probs else out.transpose(1, 2)

    monkeypatch.setitem(sys.modules, package, SimpleNamespace(flash_attn_func=flash_attn_func))
    from motet.kernels.backends import BACKENDS, Inputs

    backend = next(one for one in BACKENDS if one.name == name)
    q, k, v = tensors(k_len=20)
    expected, expected_lse = reference.attention(q, k, v, None, True, 0.4)
    for wanted in (False, True):
        out, lse = backend.run(Inputs(q, k, v, None, True, 0.4, wanted, FULL))
        torch.testing.assert_close(out, expected)
        assert (lse is not None) == wanted
        if wanted:
            torch.testing.assert_close(lse, expected_lse)


def test_unknown_backend_and_format_name_what_is_known() -> None:
    q, k, v = tensors()
    with pytest.raises(NoBackendError, match="'flesh' is unknown; known: sage, sage_emulated"):
        attention(q, k, v, backend="flesh")
    with pytest.raises(ValueError, match="'int4' is unknown; known: full, int8, fp8"):
        Precision(qk="int4")
    with pytest.raises(ValueError, match="'int8' is unknown; known: full, fp8"):
        Precision(pv="int8")


def test_all_faults_of_the_tensors_are_told_at_once() -> None:
    q, k, v = tensors()
    with pytest.raises(ValueError, match=r"head_dim differs.*3 query heads are no multiple of 2"):
        attention(q[:, :3, :, :8], k, v)
    with pytest.raises(ValueError, match=r"q must be .* got \(4, 20, 16\)"):
        attention(q[0], k, v)
    with pytest.raises(ValueError, match=r"dtypes differ: q torch.float32, k torch.float16"):
        attention(q, k.half(), v.half())
    with pytest.raises(ValueError, match=r"mask \(2, 33\) does not broadcast"):
        attention(q, k, v, torch.ones(2, 33, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"mask must be bool .* got torch.int64"):
        attention(q, k, v, torch.ones(20, 33, dtype=torch.int64))
