"""One rank of a gloo world that runs every multi-process case of kernels/ and writes its findings.

Started by `test_ranks.py` as `rank_cases.py RANK WORLD INIT_FILE OUT_FILE`; the findings are a
JSON object, case name to numbers, that the tests there judge.
"""

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from motet.kernels import guidance, parallel, reference, ring, tiles
from motet.kernels.parallel import Mesh, Traffic, make_mesh
from motet.kernels.request import FULL, INT8, Precision
from motet.kernels.ring import ring_attention
from motet.kernels.ulysses import unified_attention

RANK, WORLD = int(sys.argv[1]), int(sys.argv[2])


def drifting(
    batch: int, heads: int, kv_heads: int, length: int, dim: int
) -> tuple[Tensor, Tensor, Tensor]:
    """float32 q, k, v with a bias per channel and a mean of K that drifts along the sequence."""
    generator = torch.Generator().manual_seed(7)

    def normal(h: int, rows: int) -> Tensor:
        return torch.randn(batch, h, rows, dim, generator=generator)

    drift = torch.linspace(-1, 1, length)[:, None] * normal(kv_heads, 1) * 2
    q = normal(heads, length) + normal(heads, 1) * 2
    k = normal(kv_heads, length) + normal(kv_heads, 1) * 5 + drift
    return q, k, normal(kv_heads, length) + normal(kv_heads, 1)


def errors(out: Tensor, expected: Tensor) -> dict[str, float]:
    a, b = out.double().flatten(), expected.double().flatten()
    if not b.numel():
        return {"max": 0.0, "cos": 1.0, "rel": 0.0}
    return {
        "max": float((a - b).abs().max()),
        "cos": float(torch.nn.functional.cosine_similarity(a, b, 0)),
        "rel": float((a - b).abs().sum() / b.abs().sum()),
    }


def mine(x: Tensor, lengths: list[int], dim: int = 2) -> Tensor:
    return torch.split(x, lengths, dim)[RANK]


def context(
    mesh: Mesh,
    lengths: list[int],
    heads: tuple[int, int] = (4, 4),
    dim: int = 64,
    precision: Precision = FULL,
    causal: bool = False,
    padded: int = 0,
    bias: bool = False,
    dtype: torch.dtype = torch.float32,
    known: bool = False,
) -> dict[str, float]:
    """Sharded attention of this rank against its rows of one whole call, and the bytes it sent."""
    total = sum(lengths)
    q, k, v = (t.to(dtype) for t in drifting(2, *heads, total, dim))
    keep = torch.ones(2, total, dtype=torch.bool)
    if padded:
        keep[1, total - padded :] = False
    additive = torch.randn(2, 1, total, total, generator=torch.Generator().manual_seed(3))
    mask = keep[:, None, None] if padded else None
    if bias:
        mask = additive if mask is None else additive.masked_fill(~mask, float("-inf"))
    expected, _ = reference.attention(q.double(), k.double(), v.double(), mask, causal)
    traffic = Traffic()
    out = unified_attention(
        mine(q, lengths),
        mine(k, lengths),
        mine(v, lengths),
        mesh,
        mask=mine(additive, lengths) if bias else None,
        key_mask=mine(keep, lengths, 1) if padded else None,
        causal=causal,
        precision=precision,
        lengths=lengths if known else None,
        traffic=traffic,
    )
    found = errors(out, mine(expected, lengths))
    return found | {f"{kind}_bytes": n for kind, n in traffic.bytes_sent.items()}


def ring_lse(mesh: Mesh, precision: Precision) -> dict[str, float]:
    """The LSE of a ring pass, exact in natural log though every shard took off its own mean."""
    lengths = parallel.split_sizes(200, WORLD)
    q, k, v = drifting(1, 2, 2, 200, 64)
    out, lse = ring_attention(
        mine(q, lengths), mine(k, lengths), mine(v, lengths), mesh.ring, precision=precision
    )
    expected, expected_lse = reference.attention(q.double(), k.double(), v.double())
    found = errors(out, mine(expected, lengths))
    return found | {"lse": float((lse - mine(expected_lse, lengths)).abs().max())}


def overlap(mesh: Mesh) -> dict[str, float]:
    """Order of events in one ring pass: a message is posted before the shard in hand is used."""
    events: list[str] = []
    exchange, attend = ring._exchange, ring._attend

    class Waits:
        def __init__(self, work: dist.Work) -> None:
            self.work = work

        def wait(self) -> None:
            events.append("wait")
            self.work.wait()

    def posted(*args: object) -> list[Waits]:
        events.append("post")
        return [Waits(work) for work in exchange(*args)]

    def used(*args: object) -> tuple[Tensor, Tensor]:
        events.append("attend")
        return attend(*args)

    ring._exchange, ring._attend = posted, used
    try:
        q, k, v = drifting(1, 2, 2, 64 * WORLD, 64)
        lengths = [64] * WORLD
        ring_attention(mine(q, lengths), mine(k, lengths), mine(v, lengths), mesh.ring)
    finally:
        ring._exchange, ring._attend = exchange, attend
    step = ["post", "attend", "wait", "wait"]
    return {"overlapped": float(events == step * (WORLD - 1) + ["attend"])}


def ring_memory(mesh: Mesh) -> dict[str, float]:
    """Largest number of shard buffers alive at once in a pass."""
    import gc
    import weakref

    alive: list[weakref.ref[Tensor]] = []
    peak = 0
    exchange = ring._exchange

    def counted(buffer: Tensor, coming: Tensor, group: parallel.Group) -> list[dist.Work]:
        nonlocal peak
        known = [ref() for ref in alive]
        alive.extend(weakref.ref(t) for t in (buffer, coming) if not any(t is one for one in known))
        del known
        gc.collect()
        peak = max(peak, sum(ref() is not None for ref in alive))
        return exchange(buffer, coming, group)

    ring._exchange = counted
    try:
        q, k, v = drifting(1, 2, 2, 64 * WORLD, 64)
        lengths = [64] * WORLD
        ring_attention(
            mine(q, lengths), mine(k, lengths), mine(v, lengths), mesh.ring, precision=INT8
        )
    finally:
        ring._exchange = exchange
    return {"buffers": float(peak)}


def guided(mesh: Mesh, owners: list[int]) -> dict[str, float]:
    """Rows shared over the ranks: equal to one rank, and how many this rank ran."""
    torch.manual_seed(0)
    net = nn.Linear(6, 5).double()
    x = torch.randn(len(owners), 6, dtype=torch.float64)
    ran, traffic = 0, Traffic()

    def run(rows: Tensor) -> Tensor:
        nonlocal ran
        ran += len(rows)
        return net(x[rows])

    with torch.no_grad():
        out = guidance.by_owner(run, owners, mesh.cfg, traffic=traffic)
        again = guidance.by_owner(run, owners, mesh.cfg, empty=out[:0])
        apart = max(float((one - net(x)).abs().max()) for one in (out, again))
    return {"max": apart, "rows": float(ran)}


def agreements(mesh: Mesh) -> dict[str, float]:
    device = torch.device("cpu")
    group = mesh.ring
    some = parallel.agreed(RANK == 0, group, "any", device)
    every = parallel.agreed(RANK == 0, group, "all", device)
    total = parallel.agreed_sum(torch.tensor([1.0, float(RANK)]), group)
    return {
        "any": float(some),
        "all": float(every),
        "sum": float(total[0]),
        "ranks": float(total[1]),
    }


def tiled(mesh: Mesh, side: int) -> dict[str, float]:
    """Tiles shared over the ranks against one rank."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(4, 8, 3, padding=1), nn.Upsample(scale_factor=2), nn.Conv2d(8, 3, 3, padding=1)
    ).double()
    latents = torch.randn(1, 4, side, side, dtype=torch.float64)
    tiling = tiles.Tiling(8, 3, 2)
    traffic = Traffic()
    with torch.no_grad():
        together = tiles.tiled_decode(net, latents, tiling, 2, mesh.ring, traffic)
        alone = tiles.tiled_decode(net, latents, tiling, 2)
        whole = net(latents)
    return {
        "alone": float((together - alone).abs().max()),
        "whole": float((together - whole).abs().max()),
    }


def common(ring_mesh: Mesh, ulysses_mesh: Mesh, cfg_mesh: Mesh) -> dict[str, Callable[[], object]]:
    even, odd = [96] * WORLD, parallel.split_sizes(27 * WORLD + 1, WORLD)
    ragged = [40, 0, 17, 5][:WORLD]
    cases: dict[str, Callable[[], object]] = {}
    for name, mesh in (("ring", ring_mesh), ("ulysses", ulysses_mesh)):
        grid: dict[str, Callable[[], object]] = {
            "even": lambda mesh=mesh: context(mesh, even),
            "odd": lambda mesh=mesh: context(mesh, odd),
            "ragged": lambda mesh=mesh: context(mesh, ragged, causal=True, padded=3),
            "known lengths": lambda mesh=mesh: context(mesh, odd, known=True),
            "padded prompt": lambda mesh=mesh: context(mesh, odd, padded=9),
            "padded shard": lambda mesh=mesh: context(mesh, odd, padded=30),
            "bias": lambda mesh=mesh: context(mesh, odd, bias=True, padded=4),
            "bias of one row": lambda mesh=mesh: context(mesh, [5] + [1] * (WORLD - 1), bias=True),
            "causal": lambda mesh=mesh: context(mesh, odd, causal=True),
            "three heads": lambda mesh=mesh: context(mesh, odd, heads=(3, 3)),
            "one head": lambda mesh=mesh: context(mesh, odd, heads=(1, 1), padded=2),
            "gqa": lambda mesh=mesh: context(mesh, odd, heads=(6, 3)),
            "int8 even": lambda mesh=mesh: context(mesh, even, precision=INT8),
            "int8 16-bit": lambda mesh=mesh: context(
                mesh, even, precision=INT8, dtype=torch.bfloat16
            ),
            "int8 odd": lambda mesh=mesh: context(mesh, odd, precision=INT8),
            "int8 padded": lambda mesh=mesh: context(mesh, odd, precision=INT8, padded=9),
            "int8 causal": lambda mesh=mesh: context(mesh, odd, precision=INT8, causal=True),
            "int8 gqa": lambda mesh=mesh: context(mesh, odd, precision=INT8, heads=(6, 3)),
            "int8 pv full": lambda mesh=mesh: context(mesh, odd, precision=Precision("int8")),
            "16-bit even": lambda mesh=mesh: context(mesh, even, dtype=torch.bfloat16),
        }
        cases |= {f"{name} {key}": run for key, run in grid.items()}
    cases["ring lse full"] = lambda: ring_lse(ring_mesh, FULL)
    cases["ring lse int8"] = lambda: ring_lse(ring_mesh, INT8)
    cases["overlap"] = lambda: overlap(ring_mesh)
    cases["ring memory"] = lambda: ring_memory(ring_mesh)
    cases["agreed"] = lambda: agreements(ring_mesh)
    cases["guided full"] = lambda: guided(cfg_mesh, guidance.even_owners(4, WORLD))
    cases["guided some"] = lambda: guided(cfg_mesh, guidance.even_owners(5, WORLD))
    cases["guided mixed"] = lambda: guided(cfg_mesh, [1, 0, 1])
    cases["guided one"] = lambda: guided(cfg_mesh, [1])
    cases["tiles"] = lambda: tiled(ring_mesh, 21)
    cases["tiles fewer than ranks"] = lambda: tiled(ring_mesh, 8)
    return cases


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{sys.argv[3]}",
        rank=RANK,
        world_size=WORLD,
        timeout=timedelta(seconds=60),
    )
    ring_mesh, ulysses_mesh = make_mesh(ring=WORLD), make_mesh(ulysses=WORLD)
    cases = common(ring_mesh, ulysses_mesh, make_mesh(cfg=WORLD))
    if WORLD == 4:
        unified = make_mesh(ring=2, ulysses=2)
        odd = [28, 27, 27, 27]
        cases["unified odd"] = lambda: context(unified, odd, padded=9)
        cases["unified int8"] = lambda: context(unified, odd, precision=INT8, padded=9)
        cases["unified three heads causal"] = lambda: context(
            unified, odd, heads=(3, 3), causal=True, known=True
        )
        cases["unified bias"] = lambda: context(unified, odd, bias=True)
        cases["unified one head"] = lambda: context(unified, odd, heads=(1, 1), padded=2)
        layout = make_mesh(cfg=2, ring=1, ulysses=2)
        cases["layout"] = lambda: {
            "cfg": list(layout.cfg.ranks),
            "ring": list(layout.ring.ranks),
            "ulysses": list(layout.ulysses.ranks),
        }
    found = {name: run() for name, run in cases.items()}
    Path(sys.argv[4]).write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
