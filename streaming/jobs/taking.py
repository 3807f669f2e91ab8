"""What comes in as jobs: inputs checked against their pipeline, files made the jobs' own."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...components.errors import BadInput
from ...components.frames import MediaFile, Segment
from ...components.transcription import parse_options
from ...pipelines.pipeline import Pipeline
from ..access.auth import Principal
from ..dataurl import data_of
from ..server import makes, takes
from ..upload import Upload
from .database import Connection
from .inputs import Inputs
from .prompts import Asked, checked, generates
from .queue import QUEUE, TASK
from .requests import JobInput, JobRequest
from .store import Job, Json, insert

_READ_AS = {"url": "MediaFile", "path": "MediaFile", "text": "TextInput", "data": "Data"}
_APART = {"prompt", "model", "input_reference"} | {"stream", "partial_images", "progress"}


@dataclass(frozen=True, slots=True)
class Source:
    """One job's input and options, and the file or picture that it doesn't own yet."""

    input: Json
    options: Json
    upload: Upload | None = None
    picture: bytes | None = None

    async def kept(self, inputs: Inputs) -> Json:
        """The input as the job keeps it, its file now its own."""
        if self.upload is not None:
            return {**self.input, "upload": await asyncio.to_thread(inputs.adopt, self.upload.path)}
        if self.picture is not None:
            return {**self.input, "upload": await asyncio.to_thread(inputs.keep, self.picture)}
        return self.input


async def sources(
    asked: JobRequest, uploads: Sequence[Upload], pipeline: Pipeline, inputs: Inputs
) -> list[Source]:
    """The inputs of a request, those of uploads last.

    Raises:
        BadInput: there is none, or the pipeline takes no such input or options.
    """
    given = [*([asked.input] if asked.input else []), *asked.inputs]
    if not given and not uploads:
        raise BadInput("input or inputs is needed", param="input")
    if generates(pipeline):
        return _prompts(asked, given, uploads, pipeline)
    files = takes(pipeline, ["MediaFile"])
    if not files and (uploads or any(one.path or one.url for one in given)):
        raise BadInput(f"{asked.pipeline!r} takes no files", param="file" if uploads else "input")
    if files:
        await asyncio.to_thread(_check_options, pipeline, asked.options)
    elif asked.options:
        raise BadInput("this pipeline's jobs have no options", param="options")
    await asyncio.to_thread(_check_inputs, asked, pipeline, inputs)
    named = [Source({"name": upload.filename}, asked.options, upload) for upload in uploads]
    return [*(Source(one.source(), asked.options) for one in given), *named]


def _check_options(pipeline: Pipeline, options: Json) -> None:
    """Refuse options of files that the pipeline can't follow. Blocks."""
    if makes(pipeline, ["Data"]):
        wanted = parse_options(options)
        if wanted.known_speakers:
            raise BadInput("known_speakers: jobs take no recordings of them", param="options")
        if wanted.diarize and not _diarizes(pipeline):
            raise BadInput(f"speakers: {pipeline.name!r} can't tell them apart", param="options")
    pipeline.refuse(MediaFile("", options=options))


def _diarizes(pipeline: Pipeline) -> bool:
    nodes = pipeline.graph.nodes.values()
    return any(Segment in node.accepts and Segment in node.emits for node in nodes)


def _check_inputs(asked: JobRequest, pipeline: Pipeline, inputs: Inputs) -> None:
    """Refuse inputs that nothing reads, that aren't there or allowed, each by its place. Blocks."""
    taken = ["name", *(name for name, frame in _READ_AS.items() if takes(pipeline, [frame]))]
    possible = ", ".join(taken[1:]) or "no job of it"
    places = [("input", asked.input)] if asked.input else []
    places += [(f"inputs[{place}]", one) for place, one in enumerate(asked.inputs)]
    for place, one in places:
        try:
            if one.prompt is not None:
                raise BadInput(f"{asked.pipeline!r} takes no prompts")
            if unread := [name for name in one.model_fields_set if name not in taken]:
                raise BadInput(f"{asked.pipeline!r} takes no {unread[0]}; possible: {possible}")
            if one.path is not None:
                inputs.check_path(one.path)
            if one.url is not None:
                inputs.check_url(one.url)
        except BadInput as error:
            raise BadInput(error.message, where=place, param=error.param or place) from error


def _prompts(
    asked: JobRequest, given: Sequence[JobInput], uploads: Sequence[Upload], pipeline: Pipeline
) -> list[Source]:
    made: list[Source] = []
    for one in given:
        if one.prompt is None:
            raise BadInput(f"{asked.pipeline!r} takes prompts: {{'prompt': '…'}}", param="input")
        source = prompted(checked(pipeline, one.prompt, asked.options))
        made.append(replace(source, input={**source.input, "name": one.name or ""}))
    if uploads and (len(uploads) > 1 or len(made) != 1 or made[0].picture is not None):
        raise BadInput("one picture goes with one prompt", param="file")
    return [replace(made[0], upload=uploads[0])] if uploads else made


def prompted(
    asked: Asked, image: bytes | None = None, notes: Mapping[str, str] | None = None
) -> Source:
    """A prompt as a job's input; `image` is the picture to start from, if it came by itself.

    Raises:
        BadInput: the picture came twice, or is none.
    """
    reference = getattr(asked, "input_reference", None)
    if reference is not None:
        if image is not None:
            raise BadInput("a picture came twice", param="input_reference")
        image = data_of(reference.image_url, "input_reference")
    kept: Json = {"prompt": asked.prompt, "name": ""}
    options = asked.model_dump(
        mode="json", exclude=_APART | {"response_format"}, exclude_unset=True
    )
    return Source({**kept, "notes": dict(notes)} if notes else kept, options, picture=image)


async def put(
    connection: Connection,
    inputs: Inputs,
    asker: Principal,
    ids: Sequence[str],
    found: Sequence[Source],
    **shared: Any,
) -> list[Job]:
    """Make the jobs and queue them by one statement; `shared` are their columns."""
    rows: list[Json] = []
    try:
        for job_id, source in zip(ids, found, strict=True):
            own = {"id": job_id, "input": await source.kept(inputs), "options": source.options}
            rows.append({**own, "owner": asker.name, "owner_limit": asker.max_jobs, **shared})
        return await insert(connection, rows, QUEUE, TASK)
    except BaseException:
        for row in rows:
            await asyncio.to_thread(inputs.forget, row["input"])
        raise


async def digest(asked: JobRequest, uploads: Sequence[Upload]) -> str:
    """What an idempotency key stands for: the request, and what is in its files."""
    files = [[one.filename, await asyncio.to_thread(_hash, one.path)] for one in uploads]
    text = json.dumps([asked.model_dump(mode="json"), files], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
