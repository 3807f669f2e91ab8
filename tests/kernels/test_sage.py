"""8-bit attention's error budgets, in the emulation that rounds as the GPU kernel does."""

import math

import pytest
import torch
from torch import Tensor

from motet.kernels import reference, sage
from motet.kernels.attention import attention
from motet.kernels.bench import errors
from motet.kernels.benchcases import biased_qkv
from motet.kernels.quantised import from_tensors, quantise_kv, specs
from motet.kernels.request import FP8, INT8, Precision

pytestmark = pytest.mark.timeout(60)
LENGTH, DIM, HEADS = 1024, 128, 2


def gaussian() -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    return tuple(torch.randn(1, HEADS, LENGTH, DIM, generator=g) for _ in range(3))


DATA = {
    "gaussian": gaussian,
    "bias": lambda: biased_qkv(LENGTH, DIM, HEADS, outliers=False),
    "bias and outliers": lambda: biased_qkv(LENGTH, DIM, HEADS),
}
UNSMOOTHED = Precision("int8", "fp8", smooth_k=False)


def measured(kind: str, precision: Precision) -> tuple[float, float]:
    """Cosine and relative L1 against float64."""
    q, k, v = DATA[kind]()
    expected, _ = reference.attention(q.double(), k.double(), v.double())
    return errors(attention(q, k, v, precision=precision), expected)


@pytest.mark.parametrize(
    ("kind", "precision", "cosine", "relative"),
    [
        ("gaussian", INT8, 0.999, 0.045),
        ("bias", INT8, 0.9999, 0.0095),
        ("bias and outliers", INT8, 0.999, 0.035),
        ("bias", FP8, 0.9995, 0.02),
        ("bias and outliers", FP8, 0.99, 0.09),
        ("bias and outliers", Precision("int8"), 0.999, 0.028),
        ("bias and outliers", Precision("full", "fp8"), 0.9995, 0.022),
    ],
)
def test_error_budget(kind: str, precision: Precision, cosine: float, relative: float) -> None:
    got_cosine, got_relative = measured(kind, precision)
    assert got_cosine >= cosine
    assert got_relative <= relative


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_target_on_three_draws(seed: int) -> None:
    q, k, v = biased_qkv(1024, 128, 4, seed=seed)
    expected, _ = reference.attention(q.double(), k.double(), v.double())
    cosine, relative = errors(attention(q, k, v, precision=INT8), expected)
    assert cosine >= 0.999
    assert relative <= 0.035


def test_budget_is_missed_without_smoothing() -> None:
    """The data tell a smoothed kernel from one that isn't."""
    cosine, relative = measured("bias and outliers", UNSMOOTHED)
    assert cosine < 0.999
    assert relative > 0.05


def test_per_tensor_fp8_misses_by_far() -> None:
    """What a cast of whole tensors would give: the anchor that the groups are measured against."""
    q, k, v = biased_qkv(LENGTH, DIM, HEADS)
    expected, _ = reference.attention(q.double(), k.double(), v.double())

    def cast(x: Tensor) -> Tensor:
        scale = x.abs().amax((2, 3), keepdim=True) / 448
        return (x / scale).to(torch.float8_e4m3fn).double() * scale

    out, _ = reference.attention(cast(q), cast(k), cast(v))
    assert errors(out, expected)[1] > 0.1


@pytest.mark.parametrize("precision", [INT8, FP8, UNSMOOTHED, Precision("int8")])
def test_lse_is_natural_and_corrected_for_smoothing(precision: Precision) -> None:
    q, k, v = biased_qkv(200, 64, 2, outliers=False)
    _, lse = attention(q, k, v, return_lse=True, precision=precision)
    _, expected = reference.attention(q.double(), k.double(), v.double())
    shift = (q @ k.mean(2, keepdim=True).mT)[..., 0] / 8
    assert shift.abs().max() > 5
    assert (lse - expected).abs().mean() < 0.08


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("dim", [40, 64, 80, 160, 256])
def test_head_sizes_and_dtypes(dim: int, dtype: torch.dtype) -> None:
    q, k, v = (t.to(dtype) for t in biased_qkv(90, dim, 2, outliers=False))
    out = attention(q, k, v, precision=INT8)
    expected, _ = reference.attention(q.double(), k.double(), v.double())
    assert out.dtype == dtype
    assert errors(out, expected)[1] < 0.02


def test_heads_may_share_keys() -> None:
    q, k, v = biased_qkv(70, 64, 6, outliers=False)
    expected, _ = reference.attention(q.double(), k[:, :2].double(), v[:, :2].double())
    out = attention(q, k[:, :2], v[:, :2], precision=INT8)
    assert errors(out, expected)[1] < 0.02


@pytest.mark.parametrize("which", [0, 1, 2])
def test_nan_stays_visible(which: int) -> None:
    """A broken step must not turn into a plausible picture."""
    inputs = [t.clone() for t in biased_qkv(40, 64, 1)]
    inputs[which][0, 0, 5, 6] = math.nan
    for precision in (INT8, FP8):
        assert attention(*inputs, precision=precision).isnan().any()


def test_probabilities_stay_under_the_largest_fp8_value() -> None:
    """Wide logits whose maximum comes last: a lazily kept maximum would saturate P at 448."""
    q, k, v = biased_qkv(256, 64, 1, outliers=False)
    order = (q[0, 0, 0] @ k[0, 0].T).argsort()
    k, v = k[:, :, order] * 4, v[:, :, order]
    expected, _ = reference.attention(q.double(), k.double(), v.double())
    assert errors(attention(q, k, v, precision=INT8), expected)[1] < 0.06


@pytest.mark.parametrize(
    "precision", [INT8, FP8, UNSMOOTHED, Precision("int8"), Precision("full", "fp8")]
)
@pytest.mark.parametrize("length", [0, 1, 50, 128])
def test_a_shard_is_described_without_its_data(precision: Precision, length: int) -> None:
    _, k, v = biased_qkv(length, 64, 3) if length else (torch.zeros(1, 3, 0, 64),) * 3
    kv = quantise_kv(k.half(), v.half(), precision)
    described = specs(1, 3, length, 64, 64, torch.float16, precision)
    assert [(tuple(t.shape), t.dtype) for t in kv.tensors()] == described
    assert from_tensors(kv.tensors(), precision) == kv
    assert (kv.length, kv.heads, kv.value_dim) == (length, 3, 64)


def in_ring(ranks: int, corrected: bool = True) -> tuple[float, float]:
    """Error of shards quantised apart, each with its own mean, and joined by their LSE."""
    q, k, v = biased_qkv(1024, 128, 4)
    expected, _ = reference.attention(q.double(), k.double(), v.double())
    joined: tuple[Tensor, Tensor] | None = None
    for k_part, v_part in zip(k.chunk(ranks, 2), v.chunk(ranks, 2), strict=True):
        kv = sage.prepare(k_part, v_part, INT8, emulated=True)
        out, lse = sage.attend(
            q, kv, None, False, 0, q.shape[-1] ** -0.5, torch.float32, emulated=True
        )
        if not corrected and kv.k_mean is not None:
            lse = lse - (q @ kv.k_mean[..., None])[..., 0] * 128**-0.5
        joined = (out, lse) if joined is None else reference.merge(*joined, out, lse)
    assert joined is not None
    return errors(joined[0], expected)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_target_holds_in_a_ring(ranks: int) -> None:
    cosine, relative = in_ring(ranks)
    assert cosine >= 0.999
    assert relative <= 0.035


def test_a_ring_without_the_correction_of_the_lse_is_wrong() -> None:
    assert in_ring(4, corrected=False)[1] > 0.05
