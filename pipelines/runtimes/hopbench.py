"""Measures the hop: paced voice sessions over one link, and what a frame costs both ends."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import resource
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

import grpc
import numpy as np
import uvloop

from ...components.base import Context, closing
from ...components.errors import ComponentFailed
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


def cpu_s() -> float:
    """The CPU time of this process so far, in seconds."""
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
        local, remote = HopServer(_echo, node="echo"), HopServer(_echo, node="echo")
        await local.start(address)
        addresses = [await remote.start("127.0.0.1:0")]
        bare = grpc.aio.server()
        method = cast("Any", grpc.stream_stream_rpc_method_handler)(_bare)
        bare.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("bare.Bare", {"Echo": method}),)
        )
        bare.add_insecure_port(address + "-bare")
        addresses.append(f"127.0.0.1:{bare.add_insecure_port('127.0.0.1:0')}")
        await bare.start()
        pipe.send(addresses)
        while await asyncio.to_thread(pipe.recv) != "stop":
            pipe.send(cpu_s())
        await local.stop()
        await remote.stop()
        await bare.stop(0)

    uvloop.run(main())


async def _bare(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    """What a hop is measured against: gRPC's own bidirectional stream of bytes."""
    del context
    async for message in messages:
        yield message


Call = Callable[[AsyncIterator[Frame], Context], AsyncIterator[Frame]]


async def paced(call: Call, index: int, seconds: float, samples: int, took: list[float]) -> int:
    """A session of 50 chunks a second: appends round trips in seconds, tells how many were late."""
    sent: dict[float, float] = {}
    chunk = np.zeros(samples, np.int16)
    count = int(seconds / CHUNK_S)

    async def microphone() -> AsyncIterator[Frame]:
        begin = time.perf_counter() + 0.1 + random.random() * CHUNK_S
        for number in range(count):
            wait_s = begin + number * CHUNK_S - time.perf_counter()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            sent[float(number)] = time.perf_counter()
            yield Audio(chunk, 16_000, float(number))

    late = 0
    async for frame in call(microphone(), Context(f"s{index}")):
        if isinstance(frame, Audio):
            trip_s = time.perf_counter() - sent.pop(frame.start_ms)
            took.append(trip_s)
            late += trip_s > CHUNK_S
    return late


async def measure(sessions: int, *, seconds: float = 4.0, chunk_bytes: int = 640) -> HopResult:
    """Run so many sessions of 50 chunks per second against an echo in a process of its own."""
    with _echo_process() as (addresses, pipe):
        async with Hop(addresses.local) as hop:
            return await _measure(hop, pipe, sessions, seconds, chunk_bytes)


Ping = Callable[[], Awaitable[None]]


async def against_bare(*, rounds: int = 20, chunk_bytes: int = 640) -> dict[str, float]:
    """Medians in seconds of one chunk there and back: over either hop, and over a bare gRPC stream
    by the same road.

    They take turns, so that whatever else the machine does meets all.
    """
    frame = Audio(np.zeros(chunk_bytes // 2, np.int16), 16_000)
    took: dict[str, list[float]] = {}
    with _echo_process() as (there, _):
        async with (
            _pings(there.local, frame) as local,
            _pings(there.remote, frame) as remote,
            _bare_pings(there.local + "-bare", bytes(chunk_bytes)) as bare_local,
            _bare_pings(there.bare, bytes(chunk_bytes)) as bare_remote,
        ):
            pings = {
                "unix": local,
                "unix, bare gRPC": bare_local,
                "tcp": remote,
                "tcp, bare gRPC": bare_remote,
            }
            for _ in range(rounds):
                for name, ping in pings.items():
                    for _ in range(100):
                        started = time.perf_counter()
                        await ping()
                        took.setdefault(name, []).append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in took.items()}


@asynccontextmanager
async def _pings(address: str, frame: Frame) -> AsyncGenerator[Ping]:
    chunks: asyncio.Queue[Frame] = asyncio.Queue()

    async def source() -> AsyncIterator[Frame]:
        while True:
            yield await chunks.get()

    async with (
        Hop(address) as hop,
        closing(hop.link.calls.call("echo", source(), Context("s"))) as answers,
    ):

        async def ping() -> None:
            chunks.put_nowait(frame)
            await anext(answers)

        yield ping


@asynccontextmanager
async def _bare_pings(address: str, message: bytes) -> AsyncGenerator[Ping]:
    channel: Any = grpc.aio.insecure_channel(address)
    stream = channel.stream_stream("/bare.Bare/Echo")()

    async def ping() -> None:
        await stream.write(message)
        await stream.read()

    try:
        yield ping
    finally:
        stream.cancel()
        await channel.close()


@dataclass(frozen=True, slots=True)
class _Addresses:
    """Of the echo: the hop on this host and by TCP, and the bare stream by TCP."""

    local: str
    remote: str
    bare: str


@contextmanager
def _echo_process() -> Generator[tuple[_Addresses, Pipe]]:
    """An echo in a process of its own: its addresses, and the pipe to it."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    with tempfile.TemporaryDirectory(prefix="motet-") as folder:
        address = f"unix:{folder}/hop"
        child = spawn.Process(target=_serve, args=(address, there), daemon=True)
        child.start()
        there.close()  # so that a child that dies ends what waits for its answer
        try:
            yield _Addresses(address, *here.recv()), here
            here.send("stop")
            child.join(5)
        except (EOFError, BrokenPipeError) as error:
            child.join(5)
            raise ComponentFailed(f"the echo's process ended with {child.exitcode}") from error
        finally:
            child.kill()


async def _measure(
    hop: Hop, pipe: Pipe, sessions: int, seconds: float, chunk_bytes: int
) -> HopResult:
    def server_cpu_s() -> float:
        pipe.send("cpu")
        return pipe.recv()

    took: list[float] = []
    client_s, server_s = cpu_s(), server_cpu_s()
    batches = hop.link.counters.batches
    call = partial(hop.link.calls.call, "echo")
    late = await asyncio.gather(
        *(paced(call, index, seconds, chunk_bytes // 2, took) for index in range(sessions))
    )
    client_s, server_s = cpu_s() - client_s, server_cpu_s() - server_s
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
    took = uvloop.run(against_bare())
    lines = [
        f"one chunk there and back by {road}: {took[road] * 1e6:.0f} µs over the hop,"
        f" {(bare := took[f'{road}, bare gRPC']) * 1e6:.0f} µs over a bare gRPC stream,"
        f" {took[road] / bare:.2f} times"
        for road in ("unix", "tcp")
    ]
    results = [uvloop.run(measure(count, seconds=seconds)) for count in sessions]
    return "\n".join([table(results), "", *lines])
