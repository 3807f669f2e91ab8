"""`/v1/jobs`: list, watch, cancel, delete; results in every format."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse

from ...components.errors import BadInput, MotetError
from ..access.auth import Principal
from ..audio.formats import render
from ..audio.request import AudioRequest, Format
from ..described import answers
from ..problems import errors
from .asking import Asker, Ours
from .requests import CancelRequest
from .results import names
from .service import Jobs
from .shapes import Cancelled, Deleted, JobList, JobShape, PartialChunk, PartialShape, job_json
from .store import FINAL, Job, Json, NotFound, State

router = APIRouter(responses=errors(404))
_RESULTS = ("application/json", "text/plain", "application/x-subrip", "text/vtt", "*/*")


class NotYet(MotetError):
    """The job isn't at its end."""

    code = "conflict"


@router.get("/v1/jobs")
async def listed(
    jobs: Ours,
    asker: Asker,
    state: State | None = None,
    after: str | None = None,
    limit: int = 20,
) -> JobList:
    """The key's jobs, the newest first; `after` is the id that the last page ended with."""
    limit = min(max(limit, 1), 100)
    found = await jobs.store.many(asker.name, ids=None, state=state, after=after, limit=limit + 1)
    data = [job_json(job) for job in found[:limit]]
    return {"object": "list", "data": data, "has_more": len(found) > limit}


@router.get("/v1/jobs/{job_id}")
async def watched(jobs: Ours, asker: Asker, job_id: str, partial: bool = False) -> JobShape:
    """A job, with its result once it is there; `partial` adds the segments that came so far."""
    job = await _get(jobs, asker, job_id)
    shape = job_json(job, result=True)
    if partial and job.state not in FINAL:
        shape["partial"] = _partial(await jobs.store.chunks(job_id))
    return shape


def _partial(chunks: list[Json]) -> PartialShape:
    """The text that the kept chunks hold, in order of time."""
    starts = [(int(chunk["key"].split(":")[1]), str(chunk["text"])) for chunk in chunks]
    texts: list[PartialChunk] = [
        {"start": start / 16_000, "text": text} for start, text in sorted(starts) if text
    ]
    return {"text": " ".join(one["text"] for one in texts), "chunks": texts}


@router.get(
    "/v1/jobs/{job_id}/result",
    response_class=Response,
    responses={200: answers(*_RESULTS), **errors(409)},
)
async def result(
    jobs: Ours, asker: Asker, job_id: str, response_format: Format = "verbose_json"
) -> Response:
    """A transcript in one of OpenAI's formats; a document's text as `text`; the first file.

    Raises:
        NotYet: the job isn't completed (409).
        BadInput: its result has no such format.
    """
    job = await _get(jobs, asker, job_id)
    if job.state != "completed" or job.result is None:
        raise NotYet(f"the job is {job.state}", where=job_id)
    if made := names(job):
        return await _file(jobs, job, made[0])
    if job.result.get("kind") != "transcript":
        if response_format == "text" and "text" in job.result:
            return Response(f"{job.result['text']}\n", media_type="text/plain")
        raise BadInput("its result is no transcript; GET the job itself", param="response_format")
    words = response_format == "verbose_json"
    asked = AudioRequest(
        model=job.pipeline,
        response_format=response_format,
        timestamp_granularities=["word", "segment"] if words else [],
    )
    body, media_type = render(job.result, asked)
    return Response(body, media_type=media_type)


@router.get(
    "/v1/jobs/{job_id}/result/{name}",
    response_class=FileResponse,
    responses={200: answers("*/*"), 206: answers("*/*"), **errors(409)},
)
async def result_file(jobs: Ours, asker: Asker, job_id: str, name: str) -> FileResponse:
    """One of the files that a job made; parts of it by `Range`.

    Raises:
        NotYet: the job isn't completed (409).
        NotFound: it made no such file (404).
    """
    job = await _get(jobs, asker, job_id)
    if job.state != "completed":
        raise NotYet(f"the job is {job.state}", where=job_id)
    return await _file(jobs, job, name)


async def _file(jobs: Jobs, job: Job, name: str) -> FileResponse:
    path = await asyncio.to_thread(jobs.results.path, job, name)
    if path is None:
        has = ", ".join(names(job)) or "none"
        raise NotFound(f"no file {name!r:.80}; its files: {has}", where=job.id)
    return FileResponse(path, filename=f"{job.id}-{name}")


@router.post("/v1/jobs/cancel")
async def all_cancelled(body: CancelRequest, jobs: Ours, asker: Asker) -> Cancelled:
    """Cancel many jobs at once; those that are over stay as they are."""
    ids = await jobs.cancel(asker.name, body)
    return {"object": "job.cancellation", "count": len(ids), "ids": ids}


@router.post("/v1/jobs/{job_id}/cancel")
async def cancelled(jobs: Ours, asker: Asker, job_id: str) -> JobShape:
    """Cancel a job; one that is over stays as it is."""
    await jobs.cancel(asker.name, CancelRequest(ids=[job_id]))
    return job_json(await _get(jobs, asker, job_id))


@router.delete("/v1/jobs/{job_id}")
async def deleted(jobs: Ours, asker: Asker, job_id: str) -> Deleted:
    """Remove a job and everything kept of it, stopping it if it runs."""
    if await jobs.delete(job_id, asker.name) is None:
        raise NotFound(f"no job {job_id!r}", where="jobs")
    return {"id": job_id, "object": "job.deleted", "deleted": True}


async def _get(jobs: Jobs, asker: Principal, job_id: str) -> Job:
    job = await jobs.store.get(job_id, asker.name)
    if job is None:
        raise NotFound(f"no job {job_id!r}", where="jobs")
    return job
