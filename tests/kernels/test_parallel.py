"""What needs no second process: sizes, buffers, guidance on one rank."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.kernels import guidance, reference
from motet.kernels.parallel import Group, Mesh, split_sizes
from motet.kernels.payload import pack, packed_bytes, unpack
from motet.kernels.ring import ring_attention
from motet.kernels.ulysses import head_sizes, unified_attention

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


@pytest.mark.parametrize("size", [1, 2, 4])
def test_steady_rows_are_even_with_guidance_and_without(size: int) -> None:
    for rows in (size, 2 * size):
        cond = [guidance.steady_owner(guidance.CONDITIONAL, row, size) for row in range(rows)]
        both = cond + [
            guidance.steady_owner(guidance.UNCONDITIONAL, row, size) for row in range(rows)
        ]
        for owners in (cond, both):
            assert {owners.count(rank) for rank in range(size)} == {len(owners) // size}
    one = [guidance.steady_owner(branch, 0, 2) for branch in (0, 1)]
    assert one == [0, 1]
    assert guidance.even_owners(5, 2) == [0, 0, 0, 1, 1]


def test_a_ring_of_one_is_plain_attention() -> None:
    q, k, v = (
        torch.randn(1, 2, 7, 8, generator=torch.Generator().manual_seed(s)) for s in (0, 1, 2)
    )
    keep = torch.arange(7)[None] < 5
    out, lse = ring_attention(q, k, v, ALONE, key_mask=keep, causal=True)
    expected, expected_lse = reference.attention(q, k, v, keep[:, None, None], True)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(lse, expected_lse)


def test_wrong_shards_are_refused_before_anything_is_sent() -> None:
    q = torch.zeros(1, 2, 7, 8)
    with pytest.raises(ValueError, match=r"lengths \[6\] must have 1 entries, and 7 for rank 0"):
        ring_attention(q, q, q, ALONE, lengths=[6])
    with pytest.raises(ValueError, match=r"key_mask must be bool \(1, 7\), got torch.float32"):
        ring_attention(q, q, q, ALONE, key_mask=torch.ones(1, 7))
    with pytest.raises(ValueError, match=r"mask \(7, 9\) does not broadcast"):
        ring_attention(q, q, q, ALONE, mask=torch.ones(7, 9, dtype=torch.bool))
    with pytest.raises(ValueError, match="causal wants queries and keys of the same tokens"):
        ring_attention(q[:, :, :1], q, q, ALONE, causal=True)
    mesh = Mesh(ALONE, ALONE, ALONE)
    with pytest.raises(ValueError, match="must be the same tokens, got lengths 7 and 3"):
        unified_attention(q, q[:, :, :3], q[:, :, :3], mesh)
    with pytest.raises(ValueError, match="lengths must have 1 entries, one a rank, got 2"):
        unified_attention(q, q, q, mesh, lengths=[3, 4])
