"""Sharded attention measured over real processes: `python -m motet.kernels.bench --ranks 2`.

Each row: a strategy, the median time of the slowest rank, the bytes that a rank sent in one pass,
and the error against one process. NCCL where there is a GPU per rank, else gloo; on a CPU the
ranks share the cores, so times compare strategies with each other and with nothing else.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import Tensor
from torch.nn import functional

from .benchcases import DIM, HEADS, biased_qkv
from .costs import all_gather_bytes
from .parallel import Mesh, Traffic, comm, gather, make_mesh, own_part, split_sizes
from .request import FULL, INT8, Precision
from .ulysses import unified_attention

processes: Any = multiprocessing


@dataclass(frozen=True, slots=True)
class Strategy:
    name: str
    ulysses: bool
    precision: Precision


STRATEGIES = (
    Strategy("ring full", False, FULL),
    Strategy("ring int8 + fp8", False, INT8),
    Strategy("ulysses full", True, FULL),
    Strategy("ulysses int8 + fp8", True, INT8),
)


def measure_ranks(ranks: int, length: int, repeats: int) -> list[str]:
    """Lines of a table; starts `ranks` processes and waits for them."""
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(_rank, (ranks, folder, length, repeats), nprocs=ranks)
        return (Path(folder) / "rows").read_text().splitlines()


def _rank(rank: int, ranks: int, folder: str, length: int, repeats: int) -> None:
    on_gpu = torch.cuda.device_count() >= ranks
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(max(torch.get_num_threads() // ranks, 1))
    backend = "nccl" if on_gpu else "gloo"
    address = f"file://{folder}/init"
    comm.init_process_group(backend, init_method=address, rank=rank, world_size=ranks)
    try:
        with torch.inference_mode():
            rows = _rows(device, length, repeats)
        if rank == 0:
            (Path(folder) / "rows").write_text("\n".join(rows))
        comm.barrier()
    finally:
        dist.destroy_process_group()


def _rows(device: torch.device, length: int, repeats: int) -> list[str]:
    ring, ulysses = make_mesh(ring=dist.get_world_size()), make_mesh(ulysses=dist.get_world_size())
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    q, k, v = (t.to(device, dtype) for t in biased_qkv(length, DIM, HEADS))
    exact = functional.scaled_dot_product_attention(q.float(), k.float(), v.float())
    expected = own_part(exact, 2, ring.ring)
    mine = [own_part(t, 2, ring.ring) for t in (q, k, v)]
    lengths = split_sizes(length, ring.ring.size)
    gathered = all_gather_bytes(1, HEADS, DIM, lengths, ring.ring.rank, dtype.itemsize)
    rows = [
        _row("all-gather + sdpa", _gather_all(mine, ring, lengths), expected, gathered, repeats)
    ]
    for strategy in STRATEGIES:
        mesh = ulysses if strategy.ulysses else ring
        traffic = Traffic()
        run = _sharded(mine, mesh, strategy.precision, lengths, traffic)
        run()
        sent = traffic.total_bytes
        rows.append(_row(strategy.name, run, expected, sent, repeats))
    return rows


def _sharded(
    mine: Sequence[Tensor], mesh: Mesh, precision: Precision, lengths: list[int], traffic: Traffic
) -> Callable[[], Tensor]:
    return lambda: unified_attention(
        mine[0], mine[1], mine[2], mesh, precision=precision, lengths=lengths, traffic=traffic
    )


def _gather_all(mine: Sequence[Tensor], mesh: Mesh, lengths: Sequence[int]) -> Callable[[], Tensor]:
    def run() -> Tensor:
        k, v = (gather(t, 2, mesh.ring, lengths) for t in mine[1:])
        return functional.scaled_dot_product_attention(mine[0], k, v)

    return run


def _row(
    name: str, run: Callable[[], Tensor], expected: Tensor, sent_bytes: int, repeats: int
) -> str:
    out = run()
    median = statistics.median(_slowest_ms(run, out.device) for _ in range(repeats))
    error = float((out.float() - expected).abs().sum() / expected.abs().sum())
    return f"{name:24} {median:10.2f} ms {sent_bytes / 2**20:9.2f} MiB sent  rel-L1 {error:.4f}"


def _slowest_ms(run: Callable[[], Tensor], device: torch.device) -> float:
    comm.barrier()
    start = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    spent = torch.tensor([(time.perf_counter() - start) * 1000], device=device)
    comm.all_reduce(spent, dist.ReduceOp.MAX)
    return float(spent)
