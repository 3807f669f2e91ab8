"""Errors as HTTP clients of OpenAI's API read them: a status and {"error": {...}}."""

from __future__ import annotations

import errno
import logging
import math
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match
from typing_extensions import TypedDict  # pydantic reads typing's only from Python 3.12 on

from ..components.errors import BadInput, MotetError, Overloaded
from .hangup import HungUp

logger = logging.getLogger(__name__)

STATUS = {
    "invalid_value": 400,
    "invalid_spec": 400,
    "invalid_api_key": 401,
    "origin_not_allowed": 403,
    "permission_denied": 403,
    "not_found": 404,
    "conflict": 409,
    "too_large": 413,
    "overloaded": 503,
    "stopping": 503,
    "rate_limited": 429,
    "missing_requirement": 501,
    "deadline_exceeded": 504,
    "component_failed": 500,
    "replica_gone": 503,
}
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What an `OSError` says of a disk that is full, or full for us."""
NO_SPACE = 507
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class Told(TypedDict):
    """What is wrong: for people, by kind, in which field, and as a stable code."""

    message: str
    type: str
    param: str | None
    code: str


class Problem(TypedDict):
    """The body of every error."""

    error: Told


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that may answer so, beside what any route may."""
    codes = {status: [code for code, one in STATUS.items() if one == status] for status in statuses}
    return {
        status: {"model": Problem, "description": " or ".join(found) or "no_space"}
        for status, found in codes.items()
    }


ANY: dict[int | str, dict[str, Any]] = {
    **errors(400, 401, 403, 429, 503),
    "default": {"model": Problem, "description": "any other error"},
}


def problem(
    status: int,
    message: str,
    code: str,
    *,
    param: str | None = None,
    retry_after_s: float | None = None,
) -> JSONResponse:
    """An error answer in OpenAI's shape."""
    kind = TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    headers: dict[str, str] = {}
    if retry_after_s is not None:
        headers["Retry-After"] = str(max(1, math.ceil(retry_after_s)))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    told: Told = {"message": message, "type": kind, "param": param, "code": code}
    body: Problem = {"error": told}
    return JSONResponse(body, status, headers)


def of_error(error: MotetError) -> JSONResponse:
    """One of our errors as an answer."""
    return problem(
        STATUS.get(error.code, 500),
        str(error),
        error.code,
        param=error.param if isinstance(error, BadInput) else None,
        retry_after_s=error.retry_after_s if isinstance(error, Overloaded) else None,
    )


def install(app: FastAPI) -> None:
    """Have the app answer every error in this shape."""

    @app.exception_handler(MotetError)
    async def ours(request: Request, error: Exception) -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        assert isinstance(error, MotetError)
        if STATUS.get(error.code, 500) >= 500:
            logger.warning("%s %r: %s", request.method, request.url.path, error)
        return of_error(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: Exception) -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        assert isinstance(error, RequestValidationError)
        faults = error.errors()
        said = "; ".join(map(_told, faults))
        param = _field(faults[0]) if faults else ""
        return problem(400, said, "invalid_value", param=param or None)

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: Exception) -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        assert isinstance(error, HTTPException)
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        answer = problem(error.status_code, f"{request.url.path}: {error.detail}", code)
        if error.status_code == 405:
            answer.headers["Allow"] = ", ".join(_methods(request))
        return answer

    @app.exception_handler(HungUp)
    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: Exception) -> Response:  # pyright: ignore[reportUnusedFunction]
        del request, error
        return Response(status_code=499)

    @app.exception_handler(OSError)
    async def disk(request: Request, error: Exception) -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        assert isinstance(error, OSError)
        if error.errno not in FULL:
            raise error
        logger.error("%s %r: %s", request.method, request.url.path, error)
        return problem(NO_SPACE, f"the server can't keep it: {error.strerror}", "no_space")

    @app.exception_handler(Exception)
    async def unknown(request: Request, error: Exception) -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        logger.exception("%s %r failed", request.method, request.url.path, exc_info=error)
        return problem(500, "an internal error; the server's log has it", "internal_error")


def _methods(request: Request) -> list[str]:
    """What can be done at this path, by any of the routes; files, which have none, can be read."""
    asked = [(method, {**request.scope, "method": method}) for method in METHODS]
    routes: list[BaseRoute] = request.app.routes
    found = (m for m, scope in asked if any(one.matches(scope)[0] is Match.FULL for one in routes))
    return list(found) or ["GET", "HEAD"]


def _field(fault: Any) -> str:
    """The field that a fault is of, "" where it is of the whole body."""
    if fault["type"] == "json_invalid":
        return ""
    return ".".join(map(str, fault["loc"][1:]))


def _told(fault: Any) -> str:
    """A fault of a request's body: its field, where it is of one field, and what is wrong."""
    field = _field(fault)
    message = str(fault["msg"]).removeprefix("Value error, ")
    if not field and fault["type"] == "missing":
        return "a JSON body is needed"
    return f"{field}: {message}" if field else message
