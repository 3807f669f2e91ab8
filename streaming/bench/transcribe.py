"""How fast files are transcribed, how much is lost, and what a peer needs for the same."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...components.errors import ComponentFailed, MissingRequirement
from ...components.frames import Data, MediaFile, Segment
from ...components.models import locate
from ...components.transcription import kind_of
from ...pipelines import Pipeline, build, load
from ...pipelines.graph import Graph
from ...pipelines.runtimes import runtime_of
from ...pipelines.runtimes.base import NodeStatus, Runtime
from .machine import peak_bytes, use

_PEER = """
import json, resource, sys, time
from faster_whisper import BatchedInferencePipeline, WhisperModel
folder, file, threads, kind, language = sys.argv[1:]
language, batched, words = language or None, kind.startswith("batched"), kind.endswith("words")
given = {"beam_size": 5, "language": language, "word_timestamps": words}
model = WhisperModel(folder, device="cpu", compute_type="int8", cpu_threads=int(threads))
wall, cpu, first, text = time.perf_counter(), time.process_time(), None, []
if batched:
    model = BatchedInferencePipeline(model)
    segments, info = model.transcribe(file, batch_size=8, **given)
else:
    segments, info = model.transcribe(file, vad_filter=True, **given)
for segment in segments:
    first = first or time.perf_counter() - wall
    text.append(segment.text)
print(json.dumps({"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu,
    "first_s": first, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    "duration_s": info.duration, "language": info.language, "text": " ".join(text)}))
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: `rtfx` is seconds of audio a second; errors count where a reference was given."""

    what: str
    rtfx: float
    wall_s: float
    cpu_s: float
    first_s: float
    peak_mb: int
    wer_percent: float | None = None
    deletions: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure; `peer` names runs of faster-whisper: "batched", "sequential".

    With "-words" behind its name it also gives each word's times, as ours always does. `replicas`
    of the transcriber share the machine's cores; None leaves that to the file.
    """

    audio: Path
    reference: Path | None = None
    file: str = "transcribe"
    language: str | None = None
    peer: tuple[str, ...] = ()
    runtime: str = "local"
    replicas: int | None = None


def run(plan: Plan) -> list[Measured]:
    """Ours here, then each peer in a process of its own: same weights, threads and beam.

    A peer sees the environment as it was: what our engine sets for itself is not its users'.
    """
    environment = dict(os.environ)
    return [asyncio.run(_ours(plan)), *(_peer(plan, peer, environment) for peer in plan.peer)]


async def _ours(plan: Plan) -> Measured:
    asked = MediaFile(str(plan.audio), plan.audio.name, {"language": plan.language})
    graph = _graph(plan)
    async with Pipeline(graph, runtime_of(plan.runtime, graph)) as running:
        await _all_there(running.runtime, graph)
        wall_s, cpu_s = time.perf_counter(), use().cpu_s
        first_s: float | None = None
        async for frame in running.ask(asked):
            if isinstance(frame, Segment) and first_s is None:
                first_s = time.perf_counter() - wall_s
            if isinstance(frame, Data) and kind_of(frame) == "transcript":
                facts = {
                    "wall_s": time.perf_counter() - wall_s,
                    "cpu_s": use().cpu_s - cpu_s,
                    "first_s": first_s,
                    "peak_mb": peak_bytes() // 2**20,
                    "duration_s": frame.value["duration"],
                    "language": frame.value["language"],
                    "text": frame.value["text"],
                }
                return _measured(_name(plan, graph), facts, plan.reference)
    raise ComponentFailed("it ended without a transcript", where=plan.file)


def _graph(plan: Plan) -> Graph:
    graph = load(plan.file)
    if plan.replicas is None:
        return graph
    cpus = (os.cpu_count() or 1) / plan.replicas
    scale = {"min_replicas": plan.replicas, "max_replicas": plan.replicas}
    nodes = {
        name: node.model_copy(
            update={
                "scale": node.scale.model_copy(update=scale),
                "resources": node.resources.model_copy(update={"cpus": cpus}),
            }
        )
        if node.use == "asr/file"
        else node
        for name, node in graph.spec.nodes.items()
    }
    return build(graph.spec.model_copy(update={"nodes": nodes}))


async def _all_there(runtime: Runtime, graph: Graph) -> None:
    """Wait for the replicas that there are to be at least: their start isn't what is measured."""
    least = {
        name: node.spec.scale.min_replicas if node.spec.preload else 0
        for name, node in graph.nodes.items()
    }

    def ready(node: NodeStatus) -> int:
        return sum(one.state == "ready" for one in node.replicas)

    async with asyncio.timeout(300):
        while any(ready(node) < least[node.node] for node in runtime.status()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def _name(plan: Plan, graph: Graph) -> str:
    where = "" if plan.runtime == "local" else f", {plan.runtime}"
    return f"motet {graph.name}{where}" + (f" x {plan.replicas}" if plan.replicas else "")


def _peer(plan: Plan, peer: str, environment: dict[str, str]) -> Measured:
    spec = load(plan.file).spec
    model = next((node.model for node in spec.nodes.values() if node.use == "asr/file"), None)
    folder = locate(model or "whisper-base")
    threads, language = os.cpu_count() or 1, plan.language or ""
    done = subprocess.run(
        [sys.executable, "-c", _PEER, *map(str, (folder, plan.audio, threads, peer)), language],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        raise MissingRequirement(f"the peer can't run: {done.stderr.strip()[-300:]}", where=peer)
    return _measured(f"faster-whisper {peer}", json.loads(done.stdout), plan.reference)


def _measured(what: str, facts: dict[str, Any], reference: Path | None) -> Measured:
    wer, deletions = None, None
    if reference is not None:
        said = reference.read_text(encoding="utf-8")
        wer, deletions = errors(said, facts["text"], language=facts["language"])
    return Measured(
        what=what,
        rtfx=round(facts["duration_s"] / facts["wall_s"], 1),
        wall_s=round(facts["wall_s"], 2),
        cpu_s=round(facts["cpu_s"], 2),
        first_s=round(facts["first_s"] or 0.0, 2),
        peak_mb=facts["peak_mb"],
        wer_percent=wer,
        deletions=deletions,
    )


def errors(said: str, heard: str, *, language: str) -> tuple[float, int]:
    """Word error rate in percent and words left out, as Whisper's authors count them: both texts
    through their normaliser, so that "20" and "twenty" are one word, in English also spellings.
    """
    try:
        import jiwer
        from whisper_normalizer.basic import BasicTextNormalizer
        from whisper_normalizer.english import EnglishTextNormalizer
    except ImportError as error:
        raise MissingRequirement(
            "--reference needs jiwer and whisper-normalizer: pip install '.[dev]'", where="bench"
        ) from error
    plain = EnglishTextNormalizer() if language == "en" else BasicTextNormalizer()
    found = jiwer.process_words(plain(said), plain(heard))
    return round(100 * found.wer, 2), found.deletions


def render(measured: list[Measured], *, as_json: bool) -> str:
    """One JSON line a run, or a table."""
    if as_json:
        return "\n".join(json.dumps(asdict(one)) for one in measured)
    names = ("wall s", "CPU s", "first s", "peak MB")
    head = f"{'':28}{'x real time':>12}" + "".join(f"{name:>9}" for name in names)
    head += f"{'WER %':>8}{'lost':>6}"
    lines = [
        f"{one.what:28}{one.rtfx:>12}{one.wall_s:>9}{one.cpu_s:>9}{one.first_s:>9}{one.peak_mb:>9}"
        f"{one.wer_percent if one.wer_percent is not None else '-':>8}"
        f"{one.deletions if one.deletions is not None else '-':>6}"
        for one in measured
    ]
    return "\n".join([head, *lines])
