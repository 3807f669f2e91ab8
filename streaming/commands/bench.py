"""`motet bench`: numbers that anyone can measure again."""

from __future__ import annotations

import argparse
from pathlib import Path

from .output import Commands, Group, write
from .profile import add_comparison, add_profile


def add(commands: Commands) -> None:
    """`motet bench`."""
    command = commands.add_parser("bench", help="measure this machine")
    kinds = Group(command, "WHAT")
    voice = kinds.add_parser("voice", help="voice sessions: cost, latency, overload")
    voice.add_argument("--sessions", type=int, default=10, help="callers at once (10)")
    voice.add_argument("--seconds", type=float, default=15.0, help="that count (15)")
    voice.add_argument("--warm-s", type=float, default=6.0, help="seconds before counting starts")
    voice.add_argument("--engines", choices=["real", "fake"], default="fake", help="ASR, LLM, TTS")
    voice.add_argument("--socket", action="store_true", help="a server process, by WebSocket")
    voice.add_argument(
        "--runtime", choices=["local", "workers"], default="local", help="of that process"
    )
    voice.add_argument("--capacity", type=int, help="sessions admitted; the rest is refused")
    voice.add_argument("--wav", type=Path, help="what callers say: WAV, FLAC, Ogg, MP3")
    voice.add_argument("--file", default="voice", help="pipeline file")
    voice.add_argument(
        "--cycle-s", type=float, default=5.0, help="seconds from question to question"
    )
    voice.add_argument("--noise-db", type=float, help="room noise, as -60 (none: digital silence)")
    voice.add_argument("--json", action="store_true", help="one JSON line")
    voice.set_defaults(command=run_bench_voice)
    embed = kinds.add_parser("embed", help="embeddings, beside sentence-transformers")
    embed.add_argument("--texts", type=int, default=192, help="how many (192)")
    embed.add_argument("--tokens", type=int, default=256, help="of each text (256)")
    embed.add_argument("--concurrency", type=int, default=64, help="requests at once (64)")
    embed.add_argument("--file", default="embed-throughput", help="pipeline file")
    embed.add_argument("--json", action="store_true", help="one JSON line")
    embed.set_defaults(command=run_bench_embed)
    files = kinds.add_parser("transcribe", help="a file to text, beside faster-whisper")
    files.add_argument("audio", type=Path, help="what to transcribe")
    files.add_argument("--reference", type=Path, help="its true text, to count errors against")
    files.add_argument("--file", default="transcribe", help="pipeline file")
    files.add_argument("--language", help="ISO 639-1; found if not given")
    files.add_argument(
        "--runtime", choices=["local", "workers"], default="local", help="where it runs (local)"
    )
    files.add_argument("--replicas", type=int, help="of the transcriber, sharing the cores")
    peers = ["batched", "sequential", "batched-words", "sequential-words"]
    peer = "faster-whisper, plain or with the times of words, which ours always gives"
    files.add_argument("--peer", nargs="*", choices=peers, default=[], help=peer)
    files.add_argument("--json", action="store_true", help="one JSON line a run")
    files.set_defaults(command=run_bench_transcribe)
    jobs = kinds.add_parser("jobs", help="durable jobs a second, and how soon one stops")
    jobs.add_argument("--jobs", type=int, default=2000, help="jobs that do nothing")
    jobs.add_argument("--per-post", type=int, default=1, help="inputs in one request")
    jobs.add_argument("--clients", type=int, default=16, help="requests at once")
    jobs.add_argument("--cancels", type=int, default=20, help="jobs to cancel at work")
    jobs.add_argument("--audio", type=Path, help="cancel transcriptions of this file")
    jobs.add_argument("--database", help="URL of a PostgreSQL; the embedded one if not given")
    jobs.add_argument("--json", action="store_true", help="one JSON line")
    jobs.set_defaults(command=run_bench_jobs)
    vision = kinds.add_parser("vision", help="a vision encoder's cache, on a model of your own")
    vision.add_argument("model", metavar="MODEL", help="folder or hub id")
    vision.add_argument("--pictures", type=int, default=8, help="different ones (8)")
    vision.add_argument("--side", type=int, default=768, help="pixels")
    vision.add_argument("--concurrency", type=int, default=50, help="askers for one picture")
    vision.add_argument("--threads", type=int, default=1, help="of the encoder (1)")
    vision.add_argument("--json", action="store_true", help="one JSON line")
    vision.set_defaults(command=run_bench_vision)
    snac = kinds.add_parser("snac", help="the speech codec: streams together and one by one")
    snac.add_argument("--streams", type=int, default=16, help="at once (16)")
    snac.add_argument("--frames", type=int, default=9, help="codec frames of each, 85 ms a frame")
    snac.add_argument("--cores", type=int, default=2, help="that the codec uses (2)")
    snac.add_argument("--rounds", type=int, default=2, help="of which the best counts (2)")
    snac.set_defaults(command=run_bench_snac)
    hop = kinds.add_parser("hop", help="the hop between two processes: latency, late frames, CPU")
    hop.add_argument(
        "--sessions",
        type=int,
        nargs="+",
        default=[1, 50, 200, 400],
        help="at once, one load after the other (1 50 200 400)",
    )
    hop.add_argument("--seconds", type=float, default=4.0, help="of each load (4)")
    hop.set_defaults(command=run_bench_hop)
    ray = kinds.add_parser("ray", help="Ray beside workers: latency, growth, a scale-down")
    ray.add_argument("--sessions", type=int, default=50, help="at once (50)")
    ray.add_argument("--seconds", type=float, default=5.0, help="of a round")
    ray.add_argument("--rounds", type=int, default=3, help="of each runtime, in turns")
    ray.add_argument(
        "--runtimes",
        nargs="+",
        default=["workers", "ray"],
        choices=["workers", "ray"],
        help="what to measure (both)",
    )
    ray.set_defaults(command=run_bench_ray)
    scaling = kinds.add_parser("scaling", help="a load on one node, and what grows: a plot")
    scaling.add_argument("node", metavar="NODE", help="the node that gets the load")
    scaling.add_argument("--file", default="voice", help="pipeline file")
    scaling.add_argument(
        "--runtime", choices=["workers", "ray"], default="workers", help="what scales (workers)"
    )
    scaling.add_argument("--max-replicas", type=int, default=3, help="of each node (3)")
    scaling.add_argument("--runs", type=int, default=6, help="runs at once")
    scaling.add_argument("--seconds", type=float, default=20.0, help="of the load (20)")
    scaling.add_argument("--svg", type=Path, required=True, help="where the plot goes")
    scaling.set_defaults(command=run_bench_scaling)
    add_comparison(kinds.add_parser("plan", help="a plan beside the same load, served here"))
    add_profile(kinds.add_parser("profile", help="service times of a graph, for `motet plan`"))


def run_bench_voice(parsed: argparse.Namespace) -> int:
    """Measure voice sessions."""
    from ...components.errors import BadInput
    from ..bench.voice import Plan, render, run

    if parsed.socket and parsed.engines == "fake":
        raise BadInput("--socket serves a file as it is: use --engines real", where="bench")
    if parsed.runtime != "local" and not parsed.socket:
        raise BadInput("--runtime is for the server process of --socket", where="bench")
    fields = {name: getattr(parsed, name) for name in Plan.__dataclass_fields__}
    write(render(run(Plan(**fields)), as_json=parsed.json))
    return 0


def run_bench_transcribe(parsed: argparse.Namespace) -> int:
    """Measure the transcription of a file."""
    from ...components.errors import BadInput
    from ..bench.transcribe import Plan, render, run

    if parsed.replicas is not None and parsed.runtime == "local":
        raise BadInput("--replicas are processes: use --runtime workers", where="bench")
    if parsed.replicas is not None and parsed.replicas < 1:
        raise BadInput(f"--replicas is {parsed.replicas}, and must be 1 at least", where="bench")
    plan = Plan(
        parsed.audio,
        parsed.reference,
        parsed.file,
        parsed.language,
        tuple(parsed.peer),
        parsed.runtime,
        parsed.replicas,
    )
    write(render(run(plan), as_json=parsed.json))
    return 0


def run_bench_jobs(parsed: argparse.Namespace) -> int:
    """Measure durable jobs."""
    from ..bench.jobs import Plan, render, run

    plan = Plan(**{name: getattr(parsed, name) for name in Plan.__dataclass_fields__})
    write(render(run(plan), plan, as_json=parsed.json))
    return 0


def run_bench_embed(parsed: argparse.Namespace) -> int:
    """Measure embeddings."""
    from ..bench.embed import Plan, render, run

    fields = {name: getattr(parsed, name) for name in Plan.__dataclass_fields__}
    write(render(run(Plan(**fields)), as_json=parsed.json))
    return 0


def run_bench_vision(parsed: argparse.Namespace) -> int:
    """Measure the encoder's cache."""
    from ..bench.vision import Plan, render, run

    fields = {name: getattr(parsed, name) for name in Plan.__dataclass_fields__}
    write(render(run(Plan(**fields)), as_json=parsed.json))
    return 0


def run_bench_snac(parsed: argparse.Namespace) -> int:
    """Measure the codec."""
    from ..bench.snac import render, run

    write(render(run(parsed.streams, parsed.frames, parsed.cores, parsed.rounds)))
    return 0


def run_bench_hop(parsed: argparse.Namespace) -> int:
    """Measure the hop of the `workers` runtime."""
    from ...pipelines.runtimes.hopbench import main as measure

    write(measure(tuple(parsed.sessions), parsed.seconds))
    return 0


def run_bench_ray(parsed: argparse.Namespace) -> int:
    """Measure Ray beside workers."""
    from ...pipelines.runtimes.raybench import main as measure

    write(measure(parsed.runtimes, parsed.sessions, parsed.seconds, parsed.rounds))
    return 0


def run_bench_scaling(parsed: argparse.Namespace) -> int:
    """Load one node and draw every node's replicas."""
    import asyncio

    from ...pipelines import load
    from ...pipelines.runtimes.scalebench import measure, scalable, svg

    graph = scalable(load(parsed.file), parsed.max_replicas)
    run = measure(
        graph, parsed.node, runtime=parsed.runtime, runs=parsed.runs, seconds=parsed.seconds
    )
    result = asyncio.run(run)
    parsed.svg.write_text(svg(result))
    most = ", ".join(f"{name} {result.most(name)}" for name in graph.order)
    write(f"{parsed.svg}: most replicas: {most}; {result.failed} runs failed")
    return 0
