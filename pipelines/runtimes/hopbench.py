"""Measures the hop: paced voice sessions over one link, and what a frame costs both ends."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import resource
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, cast

import grpc
import numpy as np

from ...components.base import Context
from ...components.frames import Audio, Frame
from .mux import Hop, HopServer

CHUNK_S = 0.02


@dataclass(frozen=True, slots=True)
class HopResult:
    """What one run measured. A frame is late when its answer comes after the next one was due.

    `*_cpu_us` is the CPU time per frame that went there and back, of the caller and of the server.
    """

    sessions: int
    frames: int
    p50_ms: float
    p99_ms: float
    late: int
    client_cpu_us: float
    server_cpu_us: float
    frames_per_batch: float


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _echo(node: str, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
    del node, context
    async for frame in frames:
        yield frame


class Pipe(Protocol):
    """One end of a pipe between two processes."""

    def send(self, obj: Any) -> None:
        """Send a value to the other end."""
        ...

    def recv(self) -> Any:
        """Wait for a value of the other end."""
        ...


def _serve(address: str, pipe: Pipe) -> None:
    """The other process: serves until the pipe says stop, answers CPU time when asked."""

    async def main() -> None:
        server = HopServer(_echo, node="echo")
        await server.start(address)
        bare = grpc.aio.server()
        method = cast("Any", grpc.stream_stream_rpc_method_handler)(_bare)
        bare.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("bare.Bare", {"Echo": method}),)
        )
        bare.add_insecure_port(address + "-bare")
        await bare.start()
        pipe.send("ready")
        while await asyncio.to_thread(pipe.recv) != "stop":
            pipe.send(_cpu_s())
        await server.stop()
        await bare.stop(0)

    asyncio.run(main())


async def _bare(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    """What a hop is measured against: gRPC's own bidirectional stream of bytes."""
    del context
    async for message in messages:
        yield message


async def _session(hop: Hop, index: int, seconds: float, samples: int, took: list[float]) -> int:
    """One paced session; appends round trips in seconds and returns how many were late."""
    sent: dict[float, float] = {}
    chunk = np.zeros(samples, np.int16)
    count = int(seconds / CHUNK_S)
    begin = time.perf_counter() + 0.1 + random.random() * CHUNK_S

    async def microphone() -> AsyncIterator[Frame]:
        for number in range(count):
            wait_s = begin + number * CHUNK_S - time.perf_counter()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            sent[float(number)] = time.perf_counter()
            yield Audio(chunk, 16_000, float(number))

    late = 0
    async for frame in hop.link.calls.call("echo", microphone(), Context(f"s{index}")):
        if isinstance(frame, Audio):
            trip_s = time.perf_counter() - sent.pop(frame.start_ms)
            took.append(trip_s)
            late += trip_s > CHUNK_S
    return late


async def measure(sessions: int, *, seconds: float = 4.0, chunk_bytes: int = 640) -> HopResult:
    """Run so many sessions of 50 chunks per second against an echo in a process of its own."""
    with _echo_process() as (address, pipe):
        async with Hop(address) as hop:
            return await _measure(hop, pipe, sessions, seconds, chunk_bytes)


async def against_bare(*, rounds: int = 20, chunk_bytes: int = 640) -> tuple[float, float]:
    """Medians in seconds of one chunk there and back: over the hop, and over a bare gRPC stream.

    The two take turns, so that whatever else the machine does meets both.
    """
    with _echo_process() as (address, _):
        return await _ping(address, rounds, chunk_bytes)


async def _ping(address: str, rounds: int, chunk_bytes: int) -> tuple[float, float]:
    frame = Audio(np.zeros(chunk_bytes // 2, np.int16), 16_000)
    ours: list[float] = []
    bare: list[float] = []
    async with Hop(address) as hop:
        chunks: asyncio.Queue[Frame] = asyncio.Queue()

        async def source() -> AsyncIterator[Frame]:
            while True:
                yield await chunks.get()

        answers = hop.link.calls.call("echo", source(), Context("s"))
        channel: Any = grpc.aio.insecure_channel(address + "-bare")
        stream = channel.stream_stream("/bare.Bare/Echo")()
        for _ in range(rounds):
            for _ in range(100):
                started = time.perf_counter()
                chunks.put_nowait(frame)
                await anext(answers)
                ours.append(time.perf_counter() - started)
            for _ in range(100):
                started = time.perf_counter()
                await stream.write(bytes(chunk_bytes))
                await stream.read()
                bare.append(time.perf_counter() - started)
        await cast("Any", answers).aclose()
        stream.cancel()
        await channel.close()
    return statistics.median(ours), statistics.median(bare)


@contextmanager
def _echo_process() -> Generator[tuple[str, Pipe]]:
    """An echo in a process of its own: its address, and the pipe to it."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    with tempfile.TemporaryDirectory(prefix="motet-") as folder:
        address = f"unix:{folder}/hop"
        child = spawn.Process(target=_serve, args=(address, there), daemon=True)
        child.start()
        try:
            here.recv()
            yield address, here
        finally:
            here.send("stop")
            child.join(5)
            child.kill()


async def _measure(
    hop: Hop, pipe: Pipe, sessions: int, seconds: float, chunk_bytes: int
) -> HopResult:
    def server_cpu_s() -> float:
        pipe.send("cpu")
        return pipe.recv()

    took: list[float] = []
    client_s, server_s = _cpu_s(), server_cpu_s()
    batches = hop.link.counters.batches
    late = await asyncio.gather(
        *(_session(hop, index, seconds, chunk_bytes // 2, took) for index in range(sessions))
    )
    client_s, server_s = _cpu_s() - client_s, server_cpu_s() - server_s
    percentiles = statistics.quantiles(took, n=100)
    return HopResult(
        sessions=sessions,
        frames=len(took),
        p50_ms=percentiles[49] * 1e3,
        p99_ms=percentiles[98] * 1e3,
        late=sum(late),
        client_cpu_us=client_s / len(took) * 1e6,
        server_cpu_us=server_s / len(took) * 1e6,
        frames_per_batch=len(took) / max(1, hop.link.counters.batches - batches),
    )


def table(results: list[HopResult]) -> str:
    """The results as lines of a Markdown table."""
    lines = [
        "| sessions | p50 ms | p99 ms | late frames | CPU µs per frame, caller + server"
        " | frames per write |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.sessions} | {one.p50_ms:.2f} | {one.p99_ms:.2f} | {one.late} of {one.frames}"
        f" | {one.client_cpu_us:.0f} + {one.server_cpu_us:.0f} | {one.frames_per_batch:.1f} |"
        for one in results
    ]
    return "\n".join(lines)


def main(sessions: tuple[int, ...] = (1, 50, 200, 400), seconds: float = 4.0) -> str:
    """What `motet bench hop` prints."""
    ours_s, bare_s = asyncio.run(against_bare())
    pings = (
        f"one chunk there and back: {ours_s * 1e6:.0f} µs over the hop,"
        f" {bare_s * 1e6:.0f} µs over a bare gRPC stream, {ours_s / bare_s:.2f} times"
    )
    results = [asyncio.run(measure(count, seconds=seconds)) for count in sessions]
    return f"{table(results)}\n\n{pings}"
