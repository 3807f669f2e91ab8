"""`motet bench voice`: what a voice session costs, how long an answer takes, what overload does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from ...pipelines import build, load
from ...pipelines.graph import Graph
from ...pipelines.spec import PipelineSpec
from ..app import create_app
from ..operate.garbage import settle_garbage
from ..server import Server
from ..settings import Settings
from . import machine
from .caller import Caller, Record
from .clip import CHUNK_MS, Clip, arrivals, make
from .engines import Hear
from .sockets import InProcess, OverSocket, Socket

HERE = "motet.streaming.bench.engines"
LIVE_MS = 700  # what of an utterance is surely no pre-roll any more

Connect = Callable[[], Coroutine[Any, Any, Socket]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run: `capacity` None admits every session; `wav` None speaks a built-in question.

    `runtime` is the served process's (`socket`): "local", or "workers".
    """

    sessions: int = 10
    seconds: float = 15.0
    warm_s: float = 6.0
    engines: str = "fake"
    file: str = "voice"
    socket: bool = False
    runtime: str = "local"
    capacity: int | None = None
    wav: Path | None = None
    cycle_s: float = 5.0
    noise_db: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The numbers of one run; times in milliseconds, None where nothing was seen."""

    sessions: int
    seconds: float
    engines: str
    transport: str
    noise_db: float | None
    silence_ms: int
    cpu_ms_per_session_s: float
    frame_p50_ms: float | None
    frame_p99_ms: float | None
    answer_p50_ms: float | None
    answer_p90_ms: float | None
    answer_p99_ms: float | None
    turns: int
    unanswered: int
    refused: dict[int, int]
    pacing_p99_ms: float | None
    rss_mb: float
    rss_mb_per_session: float
    threads: int
    others_cores: float
    machine: str


def graph_of(plan: Plan) -> Graph:
    """The graph to run: the file's, with engines that cost nothing where they are to be fake."""
    spec = load(plan.file).spec.model_dump()
    if plan.engines == "fake":
        for node, engine in (("asr", "Hear"), ("llm", "Answer"), ("tts", "Say")):
            spec["nodes"][node] = {"use": f"{HERE}:{engine}"}
        spec["nodes"]["turn"] = {"use": "turn/silence"}
    spec["sessions"]["max_sessions"] = plan.capacity or max(plan.sessions, 1)
    return build(PipelineSpec.model_validate(spec))


def run(plan: Plan) -> Report:
    """Run the benchmark and report."""
    return uvloop.run(measure(plan))


async def measure(plan: Plan) -> Report:
    """Start a server, let the callers talk, and count."""
    clip = make(plan.wav, plan.cycle_s, plan.noise_db)
    graph = graph_of(plan)
    opened = over_socket(plan) if plan.socket else in_process(graph, plan)
    async with opened as (connect, pid):
        return await drive(plan, graph, clip, connect, pid)


async def drive(plan: Plan, graph: Graph, clip: Clip, connect: Connect, pid: int | None) -> Report:
    """Let the callers talk to a server that runs already."""
    record = Record()
    before = machine.use(pid)
    started_s = time.perf_counter()
    stop_s = started_s + plan.warm_s + plan.seconds
    callers: dict[str, Caller] = {}

    watch_frames(record, callers, int((plan.warm_s + plan.seconds) * 1000 / CHUNK_MS) + 1)

    async def one() -> None:
        await Caller(await connect(), clip, record, callers.__setitem__).call(stop_s)

    async with asyncio.TaskGroup() as group:
        for _ in range(plan.sessions):
            group.create_task(one())
        await asyncio.sleep(plan.warm_s)
        record.on = True
        first, first_s = machine.use(pid), time.perf_counter()
        await asyncio.sleep(max(0.0, stop_s - time.perf_counter() - 0.2))
        last, last_s = machine.use(pid), time.perf_counter()
        record.on = False
    wall_s = last_s - first_s
    admitted = plan.sessions - sum(record.refused.values())
    cpu_s = last.cpu_s - first.cpu_s
    conversation = graph.spec.conversation
    return Report(
        sessions=plan.sessions,
        seconds=round(wall_s, 1),
        engines=plan.engines,
        transport=f"socket, {plan.runtime}" if plan.socket else "in process",
        noise_db=plan.noise_db,
        silence_ms=conversation.silence_duration_ms if conversation else 0,
        cpu_ms_per_session_s=round(cpu_s * 1000 / (max(admitted, 1) * wall_s), 2),
        frame_p50_ms=percentile(record.frames_s, 50),
        frame_p99_ms=percentile(record.frames_s, 99),
        answer_p50_ms=percentile(record.answers_s, 50),
        answer_p90_ms=percentile(record.answers_s, 90),
        answer_p99_ms=percentile(record.answers_s, 99),
        turns=record.turns,
        unanswered=record.unanswered,
        refused=record.refused,
        pacing_p99_ms=percentile(record.late_s, 99),
        rss_mb=round(last.rss_bytes / 2**20, 1),
        rss_mb_per_session=round((last.rss_bytes - before.rss_bytes) / 2**20 / max(admitted, 1), 3),
        threads=last.threads,
        others_cores=round(max(0.0, (last.machine_s - first.machine_s - cpu_s) / wall_s), 2),
        machine=machine.describe(),
    )


@asynccontextmanager
async def in_process(graph: Graph, plan: Plan) -> AsyncGenerator[tuple[Connect, int | None]]:
    """A server in this process; callers reach it at the ASGI boundary."""
    sessions = plan.capacity or plan.sessions
    server = Server.make([graph], Settings(max_sessions=sessions, max_sessions_per_key=sessions))
    app = create_app(server)
    async with app.router.lifespan_context(app):
        settle_garbage()

        async def connect() -> Socket:
            return InProcess(app, "/v1/realtime")

        yield connect, None


@asynccontextmanager
async def over_socket(plan: Plan) -> AsyncGenerator[tuple[Connect, int | None]]:
    """A server process of its own, reached by WebSocket."""
    from .process import serving

    limit = str(plan.capacity or plan.sessions)
    arguments = (plan.file, "--max-sessions", limit, "--runtime", plan.runtime)
    async with serving(*arguments) as (url, pid):

        async def connect() -> Socket:
            return await OverSocket.open(f"{url}/v1/realtime")

        yield connect, pid


def watch_frames(record: Record, callers: dict[str, Caller], chunks: int) -> None:
    """Have the fake recogniser note, for each live window, the time since the chunk was sent that
    completed it. That time holds everything but the look-ahead of resampling."""
    there = arrivals(chunks)

    def probe(session: str, end_ms: float, started_ms: float) -> None:
        caller = callers.get(session)
        if caller is None or not record.on or end_ms - started_ms < LIVE_MS:
            return
        chunk = int(np.searchsorted(there, round(end_ms * 16)))
        if chunk < len(caller.fed_s):
            record.frames_s.append(time.perf_counter() - caller.fed_s[chunk])

    Hear.probe = probe


def percentile(seconds: list[float], rank: float) -> float | None:
    """A percentile in milliseconds."""
    return round(float(np.percentile(seconds, rank)) * 1000, 2) if seconds else None


def render(report: Report, *, as_json: bool) -> str:
    """The report as one JSON line, or as a table."""
    values = asdict(report)
    if as_json:
        return json.dumps(values)
    return "\n".join(f"{name:22} {value}" for name, value in values.items())
