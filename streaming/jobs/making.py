"""`POST /v1/jobs`: jobs from JSON, or from a form with files."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from ...components.errors import BadInput
from ..access.auth import Principal
from ..described import FILES, body, request_with
from ..fetch import TooLarge
from ..problems import errors
from ..server import server_of
from ..upload import Form, Upload, received
from .asking import Asker, Ours
from .database import Connection
from .endpoints import add_once, checked_secret
from .requests import JobRequest, Notify
from .service import Jobs
from .shapes import HookShape, JobList, JobShape, job_json
from .store import Job, Json, NotFound, lock_request
from .taking import digest, put, sources

router = APIRouter()
_MADE: dict[int | str, dict[str, Any]] = {
    201: {"model": JobShape | JobList, "description": "A job, or a list of several"},
    200: {"model": JobShape | JobList, "description": "What the same idempotency key made before"},
}


@router.post(
    "/v1/jobs",
    status_code=201,
    response_model=None,
    openapi_extra=body(json=JobRequest, form=request_with(JobRequest, file=FILES)),
    responses={**_MADE, **errors(404, 409, 413, 507)},
)
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
    found = await sources(asked, uploads, jobs.find(asked.pipeline), jobs.inputs)
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
        told: HookShape | None = None
        if wish is not None and secret is not None:
            endpoint = await add_once(connection, asker.name, wish["url"], secret)
            wish, told = {"endpoint": endpoint}, {"endpoint": endpoint, "secret": secret}
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


def _shown(made: list[Job], *, single: bool, told: HookShape | None = None) -> JSONResponse:
    """The answer; `told` is the webhook of these jobs with its secret, shown this once."""
    shapes = [job_json(job) for job in made]
    if single and not shapes:
        raise NotFound("the job that this idempotency key made was deleted", where="jobs")
    body: JobShape | JobList = shapes[0] if single else {"object": "list", "data": shapes}
    if told is not None:
        body["webhook"] = told
    return JSONResponse(body, 201)
