"""The twins themselves, against torch and against their own definitions."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from motet.kernels import reference


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", ["none", "bool", "additive"])
def test_attention_is_torchs(causal: bool, mask: str) -> None:
    q, k, v = normal(2, 6, 9, 8), normal(2, 3, 9, 8, seed=1), normal(2, 3, 9, 8, seed=2)
    full = {"none": None, "bool": normal(2, 1, 9, 9) > -1, "additive": normal(6, 9, 9)}[mask]
    if causal and full is not None:
        lower = torch.ones(9, 9, dtype=torch.bool).tril()
        both = full & lower if mask == "bool" else full.masked_fill(~lower, -math.inf)
    else:
        both = full
    alone = causal and full is None
    expected = functional.scaled_dot_product_attention(
        q, k, v, both, is_causal=alone, scale=0.3, enable_gqa=True
    )
    out, _ = reference.attention(q, k, v, full, causal, 0.3)
    torch.testing.assert_close(out, expected)


def test_lse_is_the_logarithm_of_the_denominator() -> None:
    q, k, v = normal(1, 2, 4, 8), normal(1, 2, 5, 8, seed=1), normal(1, 2, 5, 8, seed=2)
    _, lse = reference.attention(q, k, v, scale=0.5)
    expected = torch.exp(torch.einsum("bhid,bhjd->bhij", q, k) * 0.5).sum(-1).log()
    torch.testing.assert_close(lse, expected)


def test_a_row_that_sees_nothing_is_zero_with_lse_minus_infinity() -> None:
    q, k, v = normal(1, 1, 3, 4), normal(1, 1, 5, 4), normal(1, 1, 5, 4)
    out, lse = reference.attention(q, k, v, causal=True, causal_offset=-1)
    assert out[0, 0, 0].tolist() == [0.0] * 4
    assert lse[0, 0, 0] == -math.inf
    assert lse[0, 0, 1:].isfinite().all()


def test_nan_is_not_lost() -> None:
    q, k, v = normal(1, 1, 3, 4), normal(1, 1, 5, 4), normal(1, 1, 5, 4)
    q[0, 0, 1] = math.nan
    out, lse = reference.attention(q, k, v)
    assert out[0, 0, 1].isnan().all()
    assert lse[0, 0, 1].isnan()


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    order=st.randoms(use_true_random=False),
    blind=st.booleans(),
)
def test_merging_shards_in_any_order_is_the_whole(cuts, order, blind) -> None:
    """Shards may be empty, and may be masked away whole."""
    q, k, v = normal(1, 2, 3, 4), normal(1, 2, 12, 4, seed=1) * 5, normal(1, 2, 12, 4, seed=2)
    mask = torch.ones(1, 1, 3, 12, dtype=torch.bool)
    mask[..., 1, : 12 if blind else 7] = False
    edges = [0, *sorted(cuts), 12]
    spans = list(pairwise(edges))
    order.shuffle(spans)
    parts = [reference.attention(q, k[:, :, a:b], v[:, :, a:b], mask[..., a:b]) for a, b in spans]
    out, lse = parts[0]
    for part in parts[1:]:
        out, lse = reference.merge(out, lse, *part)
    expected, expected_lse = reference.attention(q, k, v, mask)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(lse, expected_lse)


def test_merge_of_distant_parts_does_not_overflow() -> None:
    o, far = torch.ones(1, 4), torch.full((1, 4), 3.0)
    out, lse = reference.merge(o, torch.tensor([-2000.0]), far, torch.tensor([5000.0]))
    assert out.tolist() == [[3.0] * 4]
    assert lse.tolist() == [5000.0]


def test_norms_are_torchs() -> None:
    x, weight, bias = normal(2, 3, 16) * 4 + 2, normal(16, seed=1), normal(16, seed=2)
    torch.testing.assert_close(
        reference.layer_norm(x, weight, bias, 1e-6),
        functional.layer_norm(x, (16,), weight, bias, 1e-6),
    )
    torch.testing.assert_close(
        reference.rms_norm(x, weight, None, 1e-6), functional.rms_norm(x, (16,), weight, 1e-6)
    )


@pytest.mark.parametrize("interleaved", [True, False])
def test_rope_is_multiplication_of_complex_numbers(interleaved: bool) -> None:
    x = normal(2, 3, 5, 8)
    angles = torch.outer(torch.arange(5.0, dtype=torch.float64), normal(4, seed=1))
    pairs = x.unflatten(-1, (4, 2)) if interleaved else x.unflatten(-1, (2, 4)).mT
    turned = torch.view_as_complex(pairs.contiguous()) * torch.polar(
        torch.ones_like(angles), angles
    )
    expected = torch.view_as_real(turned)
    expected = expected if interleaved else expected.mT
    got = reference.rope(x, angles.cos(), angles.sin(), interleaved)
    torch.testing.assert_close(got, expected.flatten(-2))
