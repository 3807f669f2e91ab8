"""Number formats and the rows that share a scale."""

import math

import pytest
import torch

from motet.kernels.fp8 import (
    K_GROUPS,
    Q_GROUPS,
    RowGroups,
    quantise_channels,
    quantise_rows,
    round_away,
    row_scales,
    to_fp8,
)


def test_saturates_and_keeps_nan() -> None:
    x = torch.tensor([448.0, 449.0, 1e9, math.inf, -500.0, math.nan])
    got = to_fp8(x).float()
    assert got[:5].tolist() == [448.0, 448.0, 448.0, 448.0, -448.0]
    assert got[5].isnan()


def test_halves_round_away_from_zero() -> None:
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -2.5, 2.4, -2.6, 0.0])
    assert round_away(x).tolist() == [1, 2, 3, -1, -3, 2, -3, 0]


@pytest.mark.parametrize(
    ("groups", "group_of"),
    [
        (Q_GROUPS, lambda row: (row // 16, row % 8)),
        (K_GROUPS, lambda row: (row // 128, (row % 8) // 2)),
    ],
)
def test_rows_that_one_thread_holds_share_a_scale(groups: RowGroups, group_of) -> None:
    rows = 300
    scales = torch.arange(groups.scales(rows), dtype=torch.float32)
    laid_out = row_scales(scales, groups, rows)
    expected = [block * groups.groups + group for block, group in map(group_of, range(rows))]
    assert laid_out.tolist() == expected


@pytest.mark.parametrize("groups", [Q_GROUPS, K_GROUPS])
@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_error_is_at_most_half_a_step_of_the_group(groups: RowGroups, dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 77, 40, generator=torch.Generator().manual_seed(0))
    x[0, 0, 5] *= 100
    codes, scales = quantise_rows(x, groups, dtype)
    step = row_scales(scales, groups, 77)[..., None]
    error = (codes.float() * step - x).abs()
    limit = step / 2 if dtype == torch.int8 else torch.maximum(x.abs() / 16, step * 2**-10)
    assert (error <= limit * 1.0001).all()
    assert codes.float().abs().max() == (127 if dtype == torch.int8 else 448)


def test_a_loud_row_costs_only_its_own_group() -> None:
    x = torch.ones(1, 1, 128, 8)
    x[0, 0, 0] = 1000
    _, scales = quantise_rows(x, K_GROUPS, torch.int8)
    assert (scales[0, 0] * 127).round().tolist() == [1000, 1, 1, 1]


def test_zeros_stay_zeros() -> None:
    codes, scales = quantise_rows(torch.zeros(1, 1, 20, 8), Q_GROUPS, torch.int8)
    assert (codes == 0).all()
    assert scales.isfinite().all()
    codes, scales = quantise_channels(torch.zeros(1, 1, 20, 8), 16)
    assert (codes.float() == 0).all()
    assert scales.isfinite().all()


def test_channels_are_transposed_scaled_and_padded() -> None:
    v = torch.randn(2, 1, 21, 6, generator=torch.Generator().manual_seed(0)) * torch.tensor(
        [1.0, 10, 100, 1e-3, 1, 1]
    )
    codes, scales = quantise_channels(v, 16)
    assert codes.shape == (2, 1, 6, 32)
    assert (codes[..., 21:].float() == 0).all()
    assert codes.float().abs().amax(-1).eq(448).all()
    back = codes[..., :21].float().mT * scales[:, :, None]
    torch.testing.assert_close(back, v, rtol=0.0626, atol=1e-4)
