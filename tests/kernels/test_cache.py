"""Step caching's maths: per row, and the same however the rows' values are spread over ranks."""

import math

import numpy as np
import pytest
import torch

from motet.kernels.cache import (
    accumulate,
    difference_sums,
    extrapolated,
    relative_difference,
    rescaled,
)


def test_difference_is_per_row() -> None:
    before = torch.ones(3, 4, 5)
    now = before * torch.tensor([1.0, 1.1, 3.0])[:, None, None]
    got = relative_difference(difference_sums(now, before))
    torch.testing.assert_close(got, torch.tensor([0.0, 0.1, 2.0]), rtol=0, atol=1e-6)


def test_sums_of_shards_give_the_difference_of_the_whole() -> None:
    g = torch.Generator().manual_seed(0)
    now, before = torch.randn(2, 30, 8, generator=g), torch.randn(2, 30, 8, generator=g)
    whole = relative_difference(difference_sums(now, before))
    shards = zip(now.split((13, 17), 1), before.split((13, 17), 1), strict=True)
    joined = sum(difference_sums(a, b) for a, b in shards)
    torch.testing.assert_close(relative_difference(joined), whole)
    mean = (
        sum(
            relative_difference(difference_sums(a, b))
            for a, b in zip(now.split((13, 17), 1), before.split((13, 17), 1), strict=True)
        )
        / 2
    )
    assert not torch.allclose(mean, whole)


def test_from_nothing_is_infinite_unless_nothing_changed() -> None:
    zero = torch.zeros(2, 3)
    now = torch.tensor([[0.0, 0, 0], [1, 0, 0]])
    assert relative_difference(difference_sums(now, zero)).tolist() == [0.0, math.inf]
    broken = torch.tensor([[math.nan, 0, 0]])
    assert relative_difference(difference_sums(broken, zero[:1])).isnan().all()


def test_polynomial_is_numpys() -> None:
    coefficients = [498.65, -283.78, 55.86, -3.82, 0.264]
    x = torch.linspace(0, 0.3, 7, dtype=torch.float64)
    expected = np.poly1d(coefficients)(x.numpy())
    torch.testing.assert_close(rescaled(x, coefficients), torch.from_numpy(expected))


def test_rows_accumulate_and_restart_for_themselves() -> None:
    total = torch.zeros(3)
    computed = []
    for _ in range(4):
        total, compute = accumulate(total, torch.tensor([0.05, 0.11, math.nan]), 0.1)
        computed.append(compute.tolist())
        total = torch.nan_to_num(total)
    assert [row[0] for row in computed] == [False, True, False, True]
    assert [row[1] for row in computed] == [True] * 4
    assert [row[2] for row in computed] == [True] * 4


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"\(2, 3\) against \(2, 4\)"):
        difference_sums(torch.zeros(2, 3), torch.zeros(2, 4))


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_polynomials_are_carried_on_exactly(degree: int) -> None:
    factors = torch.randn(degree + 1, 5, generator=torch.Generator().manual_seed(0)).double()

    def value(step: int) -> torch.Tensor:
        return sum(factor * step**power for power, factor in enumerate(factors))

    points = [(step, value(step)) for step in (2, 5, 6)[: degree + 1]]
    torch.testing.assert_close(extrapolated(points, 8), value(8))


def test_what_is_kept_as_it_was_has_one_point() -> None:
    only = torch.randn(3)
    assert torch.equal(extrapolated([(4, only)], 9), only)
