"""Fused norms on a CPU, where the twin runs, and what they refuse."""

import pytest
import torch
from torch import Tensor

from motet.kernels import norms, reference


def rows(dtype: torch.dtype, tokens: int = 1) -> list[Tensor]:
    g = torch.Generator().manual_seed(0)
    shapes = [(2, 7, 24), (2, 7, 24), *[(2, tokens, 24)] * 3]
    return [torch.randn(*shape, generator=g).to(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("tokens", [1, 7])
def test_sums_are_taken_in_float32_or_more(
    dtype: torch.dtype, kind: norms.Kind, tokens: int
) -> None:
    inputs = rows(dtype, tokens)
    hidden, out = norms.gate_residual_norm_modulate(*inputs, kind=kind)
    wide = reference.gate_residual_norm_modulate(*(t.double() for t in inputs), kind=kind)
    assert hidden.dtype == out.dtype == dtype
    for got, expected in zip((hidden, out), wide, strict=True):
        torch.testing.assert_close(
            got, expected.to(dtype), rtol=1e-2 if dtype.itemsize == 2 else 1e-5, atol=1e-5
        )


def test_qk_norm_rope_turns_both() -> None:
    g = torch.Generator().manual_seed(0)
    q, k = torch.randn(1, 4, 5, 8, generator=g), torch.randn(1, 2, 5, 8, generator=g)
    q_weight, k_weight = torch.randn(2, 8, generator=g)
    angles = torch.outer(torch.arange(5), torch.linspace(1, 0.1, 4))
    got = norms.qk_norm_rope(q, k, q_weight, k_weight, angles.cos(), angles.sin())
    for x, weight, out in ((q, q_weight, got[0]), (k, k_weight, got[1])):
        assert torch.equal(out, reference.norm_rope(x, weight, angles.cos(), angles.sin()))
        unit = out.square().mean(-1)
        assert not torch.allclose(unit, torch.ones_like(unit))


def test_rotation_keeps_each_heads_norm() -> None:
    x = torch.randn(1, 2, 5, 8, generator=torch.Generator().manual_seed(0))
    angles = torch.outer(torch.arange(5), torch.linspace(1, 0.1, 4))
    out, _ = norms.qk_norm_rope(x, x, torch.ones(8), torch.ones(8), angles.cos(), angles.sin())
    torch.testing.assert_close(out.square().mean(-1), torch.ones(1, 2, 5), rtol=0, atol=1e-4)


def test_gradients_reach_the_inputs() -> None:
    inputs = [t.requires_grad_() for t in rows(torch.float32)]
    sum(out.sum() for out in norms.gate_residual_norm_modulate(*inputs)).backward()
    assert all(t.grad is not None for t in inputs)


def test_shapes_that_do_not_fit_are_named() -> None:
    x, residual, gate, shift, scale = rows(torch.float32)
    with pytest.raises(ValueError, match=r"residual \(2, 6, 24\), gate \(2, 24\)"):
        norms.gate_residual_norm_modulate(x, residual[:, :6], gate[:, 0], shift, scale)
    q = torch.zeros(1, 2, 5, 8)
    with pytest.raises(ValueError, match=r"q \(1, 2, 5, 8\) needs cos and sin"):
        norms.qk_norm_rope(q, q, q[0, 0, 0], q[0, 0, 0], torch.zeros(5, 8), torch.zeros(5, 8))
    odd = torch.zeros(1, 2, 5, 7)
    with pytest.raises(ValueError, match=r"q \(1, 2, 5, 7\) needs cos and sin"):
        norms.qk_norm_rope(odd, odd, odd[0, 0, 0], odd[0, 0, 0], odd[0, 0, :, :3], odd[0, 0, :, :3])
