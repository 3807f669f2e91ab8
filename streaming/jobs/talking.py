"""What a server says, as the command line reads it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx

from ..commands.remote import refusal

_LOOK_S = 1.0
_PATIENCE_S = 120.0
_PASSING = (502, 503, 504)


def answered(response: httpx.Response) -> httpx.Response:
    """The answer, if it is no error.

    Raises:
        MotetError: what the server says is wrong.
    """
    if response.is_error:
        key = "authorization" in response.request.headers
        raise refusal(response, f"{response.url.copy_with(path='', query=None)}", key=key)
    return response


def ended(
    http: httpx.Client, job_id: str, show: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """A job at its end; it is shown on the way. A server that is away for a while is waited for.

    Raises:
        MotetError: it is away for longer, or the job is gone.
    """
    heard_s = time.monotonic()
    while True:
        try:
            response = http.get(f"/v1/jobs/{job_id}")
        except httpx.TransportError:
            if time.monotonic() - heard_s > _PATIENCE_S:
                raise
        else:
            late = time.monotonic() - heard_s > _PATIENCE_S
            if response.status_code not in _PASSING or late:
                job = answered(response).json()
                if job["state"] in ("completed", "failed", "cancelled"):
                    return job
                show(job)
                heard_s = time.monotonic()
        time.sleep(_LOOK_S)
