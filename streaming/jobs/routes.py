"""`/v1/jobs`: make, list, watch, cancel, delete; results in every format."""

from __future__ import annotations

import asyncio
import secrets
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from pydantic import ValidationError

from ...components.errors import BadInput, MotetError
from ..audioformats import render
from ..audiorequest import AudioRequest, Format
from ..auth import Principal
from ..fetch import TooLarge
from ..server import principal_of, server_of
from ..upload import Form, Upload, received
from .database import Connection
from .endpoints import add_once, checked_secret
from .requests import JobRequest, Notify, job_json
from .results import names
from .service import Jobs
from .store import FINAL, Job, Json, NotFound, lock_request
from .taking import digest, put, sources

router = APIRouter()


class NotYet(MotetError):
    """The job isn't at its end."""

    code = "conflict"


Asker = Annotated[Principal, Depends(principal_of)]


async def jobs_of(request: Request, asker: Asker) -> Jobs:
    """FastAPI dependency: the jobs of this server, their engine running. `asker` comes first, so
    that nobody without a key starts it.

    Raises:
        NoJobs: nothing that is served here needs any (404).
    """
    return await request.app.state.jobs.jobs()


Ours = Annotated[Jobs, Depends(jobs_of)]


@router.post("/v1/jobs", status_code=201, response_model=None)
async def make(
    request: Request,
    jobs: Ours,
    asker: Asker,
    idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
) -> JSONResponse:
    """Make jobs: from JSON, or from a form with a `request` field and any number of files.

    One input gives one job, several a list. The same `Idempotency-Key` gives the same jobs.
    """
    settings = server_of(request).settings
    if "multipart" not in request.headers.get("content-type", ""):
        body = await _body(request, settings.max_message_bytes)
        return await _make(_checked(body), [], jobs, asker, idempotency_key)
    folder = settings.data_dir / "uploads"
    async with received(request, folder, limit_bytes=settings.max_upload_bytes) as form:
        uploads = [upload for _, upload in form.files]
        if not uploads:
            raise BadInput("a form needs at least one file", param="file")
        return await _make(_field(form), uploads, jobs, asker, idempotency_key)


async def _body(request: Request, most: int) -> bytes:
    body = bytearray()
    async for block in request.stream():
        body += block
        if len(body) > most:
            raise TooLarge(f"more than {most} bytes of JSON; files go as parts of a form")
    return bytes(body)


def _field(form: Form) -> JobRequest:
    unknown = sorted({name for name, _ in form.fields} - {"request"})
    if unknown:
        raise BadInput(f"a form has files and a field `request` with JSON; got {unknown}")
    return _checked(dict(form.fields).get("request", "{}"))


def _checked(body: str | bytes) -> JobRequest:
    try:
        return JobRequest.model_validate_json(body)
    except ValidationError as error:
        flaws = error.errors(include_url=False, include_input=False)
        said = [f"{'.'.join(map(str, flaw['loc']))}: {flaw['msg']}" for flaw in flaws]
        param = str(flaws[0]["loc"][0]) if flaws[0]["loc"] else None
        raise BadInput("; ".join(said), param=param) from error


async def _make(
    asked: JobRequest,
    uploads: list[Upload],
    jobs: Jobs,
    asker: Principal,
    key: str | None,
) -> JSONResponse:
    pipeline = jobs.find(asked.pipeline)
    found = await sources(asked, uploads, pipeline, jobs.inputs)
    ids = [f"job_{secrets.token_hex(12)}" for _ in found]
    columns: Json = {
        "pipeline": asked.pipeline,
        "priority": asker.priority if asked.priority is None else asker.allowed(asked.priority),
        "metadata": asked.metadata,
        "retention_s": asked.retention_s,
    }
    single = asked.input is not None or (len(uploads) == 1 and not asked.inputs)
    secret = await _secret(asked.webhook, jobs, asker.name)

    async def made(connection: Connection) -> JSONResponse:
        wish: Json | None = asked.webhook.model_dump() if asked.webhook else None
        told: Json | None = None
        if wish is not None and secret is not None:
            wish = {"endpoint": await add_once(connection, asker.name, wish["url"], secret)}
            told = {**wish, "secret": secret}
        taken = await put(connection, jobs.inputs, asker, ids, found, webhook=wish, **columns)
        return _shown(taken, single=single, told=told)

    if key is None:
        async with jobs.database.connection() as connection:
            return await made(connection)
    asked_for = await digest(asked, uploads)
    async with jobs.database.transaction() as connection:
        earlier = await lock_request(connection, asker.name, key, asked_for, ids)
        if earlier is None:
            return await made(connection)
    many = await jobs.store.many(
        asker.name, ids=earlier, state=None, after=None, limit=len(earlier), oldest_first=True
    )
    places = {job_id: place for place, job_id in enumerate(earlier)}
    many.sort(key=lambda job: places[job.id])
    response = _shown(many, single=single)
    response.status_code = 200
    response.headers["Idempotent-Replayed"] = "true"
    return response


async def _secret(wish: Notify | None, jobs: Jobs, owner: str) -> str | None:
    """What signs the events of these jobs where they go to a URL of their own.

    Raises:
        BadInput: the URL or the secret can't be used, or there is no such endpoint.
    """
    if wish is None:
        return None
    if wish.endpoint is not None and not await jobs.endpoints.has(owner, wish.endpoint):
        raise BadInput(f"no endpoint {wish.endpoint!r:.80}; see GET /v1/webhooks", param="webhook")
    if wish.url is None:
        return None
    jobs.inputs.check_url(wish.url, param="webhook")
    return checked_secret(wish.secret)


def _shown(made: list[Job], *, single: bool, told: Json | None = None) -> JSONResponse:
    """The answer; `told` is the webhook of these jobs with its secret, shown this once."""
    shapes = [job_json(job) for job in made]
    if single and not shapes:
        raise NotFound("the job that this idempotency key made was deleted", where="jobs")
    body = shapes[0] if single else {"object": "list", "data": shapes}
    return JSONResponse(body | ({"webhook": told} if told else {}), 201)


@router.get("/v1/jobs")
async def listed(
    jobs: Ours,
    asker: Asker,
    state: Literal["queued", "running", "completed", "failed", "cancelled"] | None = None,
    after: str | None = None,
    limit: int = 20,
) -> Json:
    """The key's jobs, the newest first; `after` is the id that the last page ended with."""
    limit = min(max(limit, 1), 100)
    found = await jobs.store.many(asker.name, ids=None, state=state, after=after, limit=limit + 1)
    data = [job_json(job) for job in found[:limit]]
    return {"object": "list", "data": data, "has_more": len(found) > limit}


@router.get("/v1/jobs/{job_id}")
async def watched(jobs: Ours, asker: Asker, job_id: str, partial: bool = False) -> Json:
    """A job, with its result once it is there; `partial` adds the segments that came so far."""
    job = await _get(jobs, asker, job_id)
    shape = job_json(job, result=True)
    if partial and job.state not in FINAL:
        shape["partial"] = _partial(await jobs.store.chunks(job_id))
    return shape


def _partial(chunks: list[Json]) -> Json:
    """The text that the kept chunks hold, in order of time."""
    placed = sorted(chunks, key=lambda chunk: int(chunk["key"].split(":")[1]))
    texts = [
        {"start": int(chunk["key"].split(":")[1]) / 16_000, "text": chunk["text"]}
        for chunk in placed
        if chunk["text"]
    ]
    return {"text": " ".join(str(one["text"]) for one in texts), "chunks": texts}


@router.get("/v1/jobs/{job_id}/result", response_model=None)
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


@router.get("/v1/jobs/{job_id}/result/{name}", response_model=None)
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


@router.post("/v1/jobs/{job_id}/cancel")
async def cancelled(jobs: Ours, asker: Asker, job_id: str) -> Json:
    """Cancel a job; one that is over stays as it is."""
    job = await jobs.cancel(job_id, asker.name)
    if job is None:
        raise NotFound(f"no job {job_id!r}", where="jobs")
    return job_json(job)


@router.delete("/v1/jobs/{job_id}")
async def deleted(jobs: Ours, asker: Asker, job_id: str) -> Json:
    """Remove a job and everything kept of it, stopping it if it runs."""
    if await jobs.delete(job_id, asker.name) is None:
        raise NotFound(f"no job {job_id!r}", where="jobs")
    return {"id": job_id, "object": "job.deleted", "deleted": True}


async def _get(jobs: Jobs, asker: Principal, job_id: str) -> Job:
    job = await jobs.store.get(job_id, asker.name)
    if job is None:
        raise NotFound(f"no job {job_id!r}", where="jobs")
    return job
