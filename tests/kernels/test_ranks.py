"""Ring, Ulysses, both together, guidance and tiles on 2 and 4 gloo processes against one."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from motet.kernels.costs import all_gather_bytes, ring_bytes, ulysses_bytes
from motet.kernels.parallel import split_sizes
from motet.kernels.request import FULL, INT8, Precision
from motet.kernels.ulysses import head_sizes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WORLDS = (2, 4)
EXACT = [
    "even", "odd", "ragged", "known lengths", "padded prompt", "padded shard", "bias",
    "bias of one row", "causal", "three heads", "one head", "gqa",
]  # fmt: skip
INT8_CASES = ["int8 even", "int8 odd", "int8 padded", "int8 causal", "int8 gqa", "int8 16-bit"]


@cache
def findings(world: int) -> list[dict[str, dict[str, Any]]]:
    """Every rank's findings; the world is run once for all tests."""
    with TemporaryDirectory() as folder:
        outs = [Path(folder) / f"out{rank}" for rank in range(world)]
        script = str(Path(__file__).with_name("rank_cases.py"))
        commands = [
            [sys.executable, script, str(rank), str(world), f"{folder}/init", str(out)]
            for rank, out in enumerate(outs)
        ]
        ranks = [
            subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands
        ]
        said = [process.communicate(timeout=280)[1] for process in ranks]
        failed = [
            text[-2000:] for process, text in zip(ranks, said, strict=True) if process.returncode
        ]
        assert failed == []
        return [json.loads(out.read_text()) for out in outs]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("way", ["ring", "ulysses"])
def test_full_precision_is_one_process(way: str, name: str, world: int) -> None:
    for rank in findings(world):
        assert rank[f"{way} {name}"]["rel"] < 2e-6


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", INT8_CASES)
@pytest.mark.parametrize("way", ["ring", "ulysses"])
def test_int8_stays_in_its_budget(way: str, name: str, world: int) -> None:
    for rank in findings(world):
        assert rank[f"{way} {name}"]["cos"] > 0.9995
        assert rank[f"{way} {name}"]["rel"] < 0.025


@pytest.mark.parametrize("world", WORLDS)
def test_int8_keys_alone_are_closer(world: int) -> None:
    for rank in findings(world):
        assert rank["ring int8 pv full"]["rel"] < 0.008


def test_ring_and_ulysses_together() -> None:
    for rank in findings(4):
        for name in ("odd", "bias", "three heads causal", "one head"):
            assert rank[f"unified {name}"]["rel"] < 2e-6
        assert rank["unified int8"]["rel"] < 0.02


@pytest.mark.parametrize("world", WORLDS)
def test_lse_carries_each_shards_own_smoothing(world: int) -> None:
    """Without the correction q . mean(K) the LSE would be off by tens."""
    for rank in findings(world):
        assert rank["ring lse full"]["lse"] < 1e-5
        assert rank["ring lse int8"]["lse"] < 0.06


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    ("name", "lengths", "heads", "precision", "width", "masked"),
    [
        ("even", "even", 4, FULL, 4, False),
        ("16-bit even", "even", 4, FULL, 2, False),
        ("odd", "odd", 4, FULL, 4, False),
        ("padded prompt", "odd", 4, FULL, 4, True),
        ("gqa", "odd", 3, FULL, 4, False),
        ("int8 even", "even", 4, INT8, 4, False),
        ("int8 odd", "odd", 4, INT8, 4, False),
        ("int8 padded", "odd", 4, INT8, 4, True),
        ("int8 pv full", "odd", 4, Precision("int8"), 4, False),
    ],
)
def test_ring_bytes_are_those_of_theory(
    name: str, lengths: str, heads: int, precision: Precision, width: int, masked: bool, world: int
) -> None:
    sizes = [96] * world if lengths == "even" else split_sizes(27 * world + 1, world)
    for rank, found in enumerate(findings(world)):
        expected = ring_bytes(2, heads, 64, sizes, rank, precision, width, masked)
        assert found[f"ring {name}"]["ring_bytes"] == expected


@pytest.mark.parametrize("world", WORLDS)
def test_quantised_ring_sends_little_over_half_of_an_all_gather(world: int) -> None:
    for rank, found in enumerate(findings(world)):
        gathered = all_gather_bytes(2, 4, 64, [96] * world, rank)
        assert found["ring int8 16-bit"]["ring_bytes"] <= 0.55 * gathered


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    ("name", "heads"), [("odd", (4, 4)), ("three heads", (3, 3)), ("gqa", (6, 3))]
)
def test_ulysses_pads_nothing(name: str, heads: tuple[int, int], world: int) -> None:
    sizes = split_sizes(27 * world + 1, world)
    q_heads, kv_heads = head_sizes(*heads, world), split_sizes(heads[1], world)
    for rank, found in enumerate(findings(world)):
        expected = ulysses_bytes(2, q_heads, kv_heads, 64, sizes, rank, 4)
        assert found[f"ulysses {name}"]["all_to_all_bytes"] == expected


@pytest.mark.parametrize("world", WORLDS)
def test_the_next_shard_travels_while_this_one_is_used(world: int) -> None:
    assert [rank["overlap"]["overlapped"] for rank in findings(world)] == [1.0] * world


@pytest.mark.parametrize("world", WORLDS)
def test_a_ring_holds_two_shards_whatever_its_size(world: int) -> None:
    assert [rank["ring memory"]["buffers"] for rank in findings(world)] == [2.0] * world


@pytest.mark.parametrize("world", WORLDS)
def test_decisions_are_one_for_all_ranks(world: int) -> None:
    for rank in findings(world):
        expected = {"any": 1.0, "all": 0.0, "sum": world, "ranks": sum(range(world))}
        assert rank["agreed"] == expected


@pytest.mark.parametrize(
    ("name", "world", "rows"),
    [
        ("guided full", 2, [4, 4]),
        ("guided some", 2, [6, 4]),
        ("guided mixed", 2, [2, 4]),
        ("guided one", 2, [1, 2]),
        ("guided full", 4, [2, 2, 2, 2]),
        ("guided mixed", 4, [2, 4, 1, 1]),
    ],
)
def test_rows_are_run_by_their_ranks_and_known_to_all(
    name: str, world: int, rows: list[int]
) -> None:
    """Each twice; the second time a rank without rows knows the shape and runs nothing."""
    assert [rank[name]["rows"] for rank in findings(world)] == rows
    assert max(rank[name]["max"] for rank in findings(world)) < 1e-12


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", ["tiles", "tiles fewer than ranks"])
def test_tiles_decoded_by_many_are_one_picture(name: str, world: int) -> None:
    for rank in findings(world):
        assert rank[name]["alone"] == 0.0
        assert rank[name]["whole"] < 1e-12


def test_ulysses_neighbours_are_innermost() -> None:
    ranks = [rank["layout"] for rank in findings(4)]
    assert [one["ulysses"] for one in ranks] == [[0, 1], [0, 1], [2, 3], [2, 3]]
    assert [one["cfg"] for one in ranks] == [[0, 2], [1, 3], [0, 2], [1, 3]]
    assert [one["ring"] for one in ranks] == [[0], [1], [2], [3]]
