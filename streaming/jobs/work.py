"""Running one job on its pipeline: to one end, written once, by whoever has it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from ...components.errors import BadInput, ComponentFailed, DeadlineExceeded, MotetError, Overloaded
from ...components.frames import (
    Data,
    Embedding,
    Frame,
    Image,
    MediaFile,
    Progress,
    TextDelta,
    TextInput,
    VideoClip,
)
from ...components.transcription import kind_of
from ...pipelines.pipeline import Pipeline
from .database import Database
from .ending import finish
from .inputs import Inputs
from .media import show, write
from .prompts import frame_of
from .results import Results, threaded
from .store import Fenced, Job, JobStore, Json

MOST_ATTEMPTS = 5
_PROGRESS_S = 1.0
_MOST_MESSAGE = 2000  # it goes along in the event

Find = Callable[[str], Pipeline]


class Again(Exception):
    """The job failed in a way that may pass; it is tried again after `wait_s`."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"again in {wait_s:g} s")
        self.wait_s = wait_s


class Work:
    """Runs jobs of one process. Cancelling `run` stops the work and leaves the job to another."""

    def __init__(
        self, database: Database, store: JobStore, inputs: Inputs, results: Results, find: Find
    ) -> None:
        self._database = database
        self._store = store
        self._inputs = inputs
        self._results = results
        self._find = find

    async def run(self, job_id: str) -> bool:
        """Take a job on and bring it to its end; False if it couldn't be taken on now.

        Raises:
            Again: it failed, and is worth another try.
        """
        job = await self._store.start(job_id)
        if job is None:
            found = await self._store.get(job_id)
            return found is None or found.state != "queued"
        try:
            if job.attempt - job.refused > MOST_ATTEMPTS:
                raise BadInput(f"it was begun {MOST_ATTEMPTS} times and never came to an end")
            result = await self._result(job)
            await finish(self._database, job, "completed", result=result)
            return True
        except Fenced:
            await asyncio.to_thread(self._results.drop, job)
        except MotetError as error:
            await asyncio.to_thread(self._results.drop, job)
            await self._failed(job, error)
        except asyncio.CancelledError:
            await asyncio.to_thread(self._results.drop, job)
            raise
        return True

    async def _failed(self, job: Job, error: MotetError) -> None:
        passing = not isinstance(error, BadInput | DeadlineExceeded)
        tries = job.attempt - job.refused
        try:
            if isinstance(error, Overloaded):
                # Everything is at work on others: it waits for its turn, however often.
                await self._store.requeue(job, refused=True)
                raise Again(min(max(error.retry_after_s or 0.0, 2.0), 60.0))
            if passing and tries < MOST_ATTEMPTS:
                await self._store.requeue(job)
                raise Again(min(60.0, 2.0**tries))
            shape = {"code": error.code, "message": error.message[:_MOST_MESSAGE]}
            await finish(self._database, job, "failed", error=shape)
        except Fenced:
            return

    async def _result(self, job: Job) -> Json:
        pipeline = self._find(job.pipeline)
        async with self._inputs.ready(job) as path:
            frames = await _asked(pipeline, job, path)
            known = [Data({**value, "kind": "known_chunk"}) for value in await self._kept(job)]
            gathered = _Gathered(job, self._store, self._results)
            run = pipeline.ask(*frames, *known, key=job.owner, trace=job.id, priority=job.priority)
            async with aclosing(run) as frames_out:
                async for frame in frames_out:
                    await gathered.add(frame)
            return gathered.result()

    async def _kept(self, job: Job) -> list[Json]:
        return await self._store.chunks(job.id) if job.attempt > 1 else []


async def _asked(pipeline: Pipeline, job: Job, path: Path | None) -> list[Frame]:
    """A job's input as frames."""
    if "prompt" in job.input:
        image = await asyncio.to_thread(path.read_bytes) if path is not None else None
        return [frame_of(pipeline, job, image)]
    if path is not None:
        return [MediaFile(str(path), job.input.get("name", ""), job.options)]
    if "text" in job.input:
        return [TextInput(job.input["text"])]
    return [Data(job.input.get("data"))]


class _Gathered:
    """What a job's frames add up to."""

    def __init__(self, job: Job, store: JobStore, results: Results) -> None:
        self._job = job
        self._store = store
        self._results = results
        self._folder: Path | None = None
        self._files: list[Json] = []
        self._text: list[str] = []
        self._pages: dict[int, str] = {}
        self._embeddings: list[Json] = []
        self._data: list[Any] = []
        self._final: Json | None = None
        self._told_s = 0.0

    async def add(self, frame: Frame) -> None:
        """Keep what a retry can use, write files, note progress at most once a second.

        Raises:
            Fenced: the job is another worker's now.
        """
        if isinstance(frame, Data):
            kind = kind_of(frame)
            if kind == "chunk":
                await self._store.keep(self._job, frame.value["key"], frame.value)
            elif kind == "transcript":
                self._final = frame.value
            else:
                self._data.append(frame.value)
        elif isinstance(frame, TextDelta):
            self._text.append(frame.text)
        elif isinstance(frame, TextInput):
            self._pages[frame.index] = frame.text
        elif isinstance(frame, Embedding):
            vector = frame.vector.astype(float).tolist()
            self._embeddings.append({"index": frame.index, "embedding": vector})
        elif isinstance(frame, VideoClip | Image):
            if self._folder is None:
                self._folder = await asyncio.to_thread(self._results.begin, self._job)
            if isinstance(frame, Image) and frame.preview:
                await threaded(show, self._folder, frame)
            else:
                self._files += await threaded(write, self._folder, frame, self._job.options)
        elif isinstance(frame, Progress) and time.monotonic() - self._told_s > _PROGRESS_S:
            self._told_s = time.monotonic()
            await self._store.progress(self._job, frame.done, frame.total)

    def result(self) -> Json:
        """The transcript, or whatever else came, by kind.

        Raises:
            ComponentFailed: nothing did.
        """
        if self._final is not None:
            return self._final
        found: Json = {}
        if self._files:
            found["files"] = sorted(self._files, key=lambda file: file["index"])
        if self._pages:
            pages = sorted(self._pages.items())
            found["text"] = "\n\n".join(text for _, text in pages)
            found["pages"] = [{"index": index, "text": text} for index, text in pages]
        if self._text:
            found["text"] = "".join(self._text)
        if self._embeddings:
            found["embeddings"] = self._embeddings
        if self._data:
            found["data"] = self._data
        if not found:
            raise ComponentFailed("the pipeline ended without a result", where=self._job.pipeline)
        return found
