"""What needs no second process: sizes, buffers, guidance on one rank."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.kernels import guidance
from motet.kernels.parallel import Group, split_sizes
from motet.kernels.payload import pack, packed_bytes, unpack
from motet.kernels.ulysses import head_sizes

ALONE = Group(None, (0,), 0)


@settings(deadline=None)
@given(total=st.integers(0, 1000), parts=st.integers(1, 16))
def test_pieces_are_nearly_equal_and_lose_nothing(total: int, parts: int) -> None:
    sizes = split_sizes(total, parts)
    assert sum(sizes) == total
    assert len(sizes) == parts
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


def test_query_heads_stay_with_their_keys() -> None:
    assert head_sizes(3, 3, 2) == [2, 1]
    assert head_sizes(12, 3, 2) == [8, 4]
    assert head_sizes(8, 1, 4) == [8, 0, 0, 0]


def test_buffers_give_back_every_part() -> None:
    parts = [
        torch.arange(21, dtype=torch.int8).view(3, 7),
        torch.randn(2, 5).to(torch.float8_e4m3fn),
        torch.randn(3),
        torch.zeros(4, 0),
        torch.tensor([True, False, True]),
        torch.randn(3, 2, dtype=torch.bfloat16).T,
    ]
    described = [(tuple(part.shape), part.dtype) for part in parts]
    buffer = pack(parts)
    assert buffer.numel() == packed_bytes(described)
    for before, after in zip(parts, unpack(buffer, described), strict=True):
        assert before.dtype == after.dtype
        assert torch.equal(before.float(), after.float())


def test_scales_are_per_row() -> None:
    cond, uncond = torch.full((2, 3, 4), 3.0), torch.ones(2, 3, 4)
    got = guidance.guide(cond, uncond, torch.tensor([1.0, 5.0]))
    assert got[:, 0, 0].tolist() == [3.0, 11.0]


@pytest.mark.parametrize(
    ("needed", "rows"), [([True, True], (4, 4)), ([True, False], (3, 4)), ([False, False], (2, 4))]
)
def test_skipped_rows_are_not_run(needed: list[bool], rows: tuple[int, int]) -> None:
    ran = []

    def run(work: guidance.Arguments) -> torch.Tensor:
        ran.append(work["x"].shape[0])
        return work["x"] * 2 + work["t"][:, None]

    x, t = torch.randn(2, 3), torch.ones(2)
    wants = torch.tensor(needed)
    cond, uncond = guidance.branches(run, {"x": x, "t": t}, {"x": -x, "t": t}, wants, ALONE)
    assert (ran[0], 4) == rows == guidance.rows_run(wants)
    assert torch.equal(cond, x * 2 + 1)
    assert torch.equal(uncond, torch.where(wants[:, None], -x, x) * 2 + 1)
    scale = torch.tensor([7.0, 7.0])
    assert torch.allclose(guidance.guide(cond, uncond, scale)[~wants], cond[~wants])
