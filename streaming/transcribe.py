"""`motet transcribe`: files to text on this machine, several at once, resumed where it stopped."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

from ..components.errors import BadInput, ComponentFailed, MotetError
from ..components.frames import Data, Frame, MediaFile, Progress
from ..components.media import probe
from ..components.transcription import kind_of, parse_options
from ..pipelines import load
from ..pipelines.pipeline import Pipeline
from .audio.formats import render
from .audio.request import AudioRequest
from .board import Board
from .targets import targets, write_whole


def run(parsed: argparse.Namespace) -> int:
    """Transcribe; status 1 if a file failed. Each failure is told, and costs the others nothing."""
    parsed.speakers = speakers_wanted(parsed)
    if parsed.speakers and parsed.format in ("json",):
        raise BadInput("speakers go with text, srt, vtt, verbose_json and diarized_json")
    return asyncio.run(_Run(parsed).all())


def speakers_wanted(parsed: argparse.Namespace) -> bool:
    """Whether voices are to be told apart, which naming a number of speakers asks for too."""
    bounds = (parsed.min_speakers, parsed.max_speakers)
    return parsed.speakers or any(bound is not None for bound in bounds)


def options_of(parsed: argparse.Namespace) -> dict[str, Any]:
    """The options of every file.

    Raises:
        BadInput: some are wrong.
    """
    options: dict[str, Any] = {
        "language": parsed.language,
        "task": "translate" if parsed.translate else "transcribe",
        "speakers": parsed.speakers,
        "channels": parsed.channels,
        "prompt": parsed.prompt,
        "hotwords": parsed.hotword,
        "beam_size": parsed.beam_size,
    }
    for name in ("min_speakers", "max_speakers"):
        if (value := getattr(parsed, name)) is not None:
            options[name] = value
    parse_options(options)
    return options


class _Run:
    """One call of the command."""

    def __init__(self, parsed: argparse.Namespace) -> None:
        self._parsed = parsed
        self._options = options_of(parsed)
        self._board = Board()
        self._targets: dict[Path, Path] = {}
        self._places = asyncio.Semaphore(max(1, parsed.at_once))
        self._failed = 0

    async def all(self) -> int:
        """Every file; 1 if one failed.

        Raises:
            BadInput: two files would be written to one place.
        """
        files = list(dict.fromkeys(self._parsed.files))
        if not self._parsed.stdout:
            self._targets = targets(files, self._parsed.format, self._parsed.out)
        async with Pipeline(load(self._parsed.pipeline)) as pipeline, asyncio.TaskGroup() as group:
            for file in files:
                group.create_task(self._one(pipeline, file))
        return 1 if self._failed else 0

    async def _one(self, pipeline: Pipeline, file: Path) -> None:
        target = self._targets.get(file)
        if target is not None and target.exists() and not self._parsed.force:
            self._board.say(f"{file}: {target} is there already (--force makes it anew)")
            return
        async with self._places:
            try:
                transcript = await self._transcript(pipeline, file)
                await self._deliver(transcript, file, target)
            except (MotetError, OSError) as error:
                self._failed += 1
                self._board.say(f"{file}: {error}")
                return
        self._board.say(_done(str(file), transcript))

    async def _deliver(self, transcript: dict[str, Any], file: Path, target: Path | None) -> None:
        asked = AudioRequest(model="", response_format=self._parsed.format)
        body, _ = render(transcript, asked)
        if target is None:
            sys.stdout.write(body + "\n")
        else:
            await asyncio.to_thread(write_whole, target, body)
            self._kept(file).unlink(missing_ok=True)

    async def _transcript(self, pipeline: Pipeline, file: Path) -> dict[str, Any]:
        await asyncio.to_thread(probe, file)
        kept = self._kept(file)
        known = await asyncio.to_thread(_read_kept, kept, self._mark(file))
        frames: list[Frame] = [MediaFile(str(file), file.name, self._options), *known]
        async with aclosing(pipeline.ask(*frames)) as out:
            async for frame in out:
                if isinstance(frame, Progress):
                    self._board.show(str(file), frame.done, frame.total)
                elif isinstance(frame, Data) and kind_of(frame) == "chunk":
                    await asyncio.to_thread(_keep, kept, self._mark(file), frame.value)
                elif isinstance(frame, Data) and kind_of(frame) == "transcript":
                    return frame.value
        raise ComponentFailed("it ended without a transcript", where=str(file))

    def _kept(self, file: Path) -> Path:
        """Where chunks are kept until the file is done, to go on after an interruption."""
        folder = self._parsed.out or file.parent
        return folder / f".{file.name}.motet-part"

    def _mark(self, file: Path) -> str:
        """What chunks belong to: they fit no other file and no other options."""
        facts = file.stat()
        return json.dumps([facts.st_size, facts.st_mtime_ns, self._parsed.pipeline, self._options])


def _keep(path: Path, mark: str, value: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists()
    with path.open("a") as file:
        if fresh:
            file.write(mark + "\n")
        file.write(json.dumps(value) + "\n")


def _read_kept(path: Path, mark: str) -> list[Data]:
    """The chunks of an interrupted run, none if they are of another file or other options."""
    if not path.is_file():
        return []
    first, *lines = path.read_text().splitlines() or [""]
    if first != mark:
        path.unlink()
        return []
    known: list[Data] = []
    for line in lines:
        try:
            known.append(Data({**json.loads(line), "kind": "known_chunk"}))
        except ValueError:
            break
    return known


def _done(name: str, transcript: dict[str, Any]) -> str:
    """What is said of a file that is done."""
    marks = transcript["checks"]["marks"]
    doubt = f", {sum(marks.values())} stretches marked {sorted(marks)}" if marks else ""
    return f"{name}: {transcript['duration']:.0f} s, {transcript['language']}{doubt}"
