"""Counted costs against torch's own counter and against sums by hand."""

import pytest
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from motet.kernels.costs import (
    all_gather_bytes,
    attention_cost,
    norm_cost,
    ring_bytes,
    ulysses_bytes,
)
from motet.kernels.request import FULL, INT8


@pytest.mark.parametrize(("q_len", "k_len"), [(64, 64), (10, 96)])
def test_attention_flops_are_torchs(q_len: int, k_len: int) -> None:
    q, k = torch.randn(2, 3, q_len, 16), torch.randn(2, 3, k_len, 16)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        functional.scaled_dot_product_attention(q, k, k)
    assert attention_cost(2, 3, 3, q_len, k_len, 16, FULL).flops == counter.get_total_flops()


def test_causal_counts_the_pairs_that_may_meet() -> None:
    seen = int(torch.ones(7, 5).tril().sum())
    assert attention_cost(1, 1, 1, 7, 5, 8, FULL, causal=True).flops == 4 * 8 * seen


def test_8_bits_read_half_of_q_k_v_and_write_the_same() -> None:
    full, small = (attention_cost(1, 4, 2, 100, 200, 64, p) for p in (FULL, INT8))
    written = 4 * 100 * 64 * 2
    assert small.bytes_moved - written == (full.bytes_moved - written) // 2
    assert small.flops == full.flops


def test_norm_reads_two_and_writes_two() -> None:
    assert norm_cost(2, 10, 32).bytes_moved == 4 * 2 * 10 * 32 * 2


def test_a_ring_of_full_precision_is_an_all_gather() -> None:
    lengths = [64, 48, 80]
    for rank in range(3):
        gathered = all_gather_bytes(2, 4, 64, lengths, rank)
        assert ring_bytes(2, 4, 64, lengths, rank, FULL) == gathered


def test_quantised_ring_approaches_half() -> None:
    sizes = {n: ring_bytes(1, 8, 128, [n] * 4, 0, INT8) for n in (64, 4096)}
    whole = {n: all_gather_bytes(1, 8, 128, [n] * 4, 0) for n in sizes}
    assert sizes[64] <= 0.55 * whole[64]
    assert sizes[4096] <= 0.502 * whole[4096]


def test_ulysses_bytes_by_hand() -> None:
    """2 ranks, 3 heads as 2 and 1, 10 and 6 tokens, head size 4, 2 bytes."""
    sent = [ulysses_bytes(1, [2, 1], [2, 1], 4, [10, 6], rank) for rank in (0, 1)]
    assert sent[0] == 4 * 2 * (3 * 1 * 10 + 2 * 6)
    assert sent[1] == 4 * 2 * (3 * 2 * 6 + 1 * 10)
