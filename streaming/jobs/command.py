"""`motet jobs`: a server's jobs from the command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

import httpx

from ...components.errors import BadInput, MotetError


def run(parsed: argparse.Namespace) -> int:
    """Do what was asked.

    Raises:
        MotetError: the server refused, or can't be reached.
    """
    key = parsed.key or os.environ.get("MOTET_API_KEY", "")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    with httpx.Client(base_url=parsed.server, headers=headers, timeout=600) as http:
        try:
            return _ACTIONS[parsed.action](http, parsed)
        except httpx.ConnectError as error:
            message = f"no server answers: {error}; see --server"
            raise MotetError(message, where=parsed.server) from error
        except httpx.HTTPError as error:
            raise MotetError(f"{type(error).__name__}: {error}", where=parsed.server) from error


def _submit(http: httpx.Client, parsed: argparse.Namespace) -> int:
    options = dict(_option(text) for text in parsed.option)
    request = {"pipeline": parsed.pipeline, "options": options, "priority": parsed.priority}
    for path in parsed.files:
        if not path.is_file():
            raise BadInput(f"no file {str(path)!r}", where="submit", param="file")
        with path.open("rb") as file:
            form = {"file": (path.name, file)}
            job = _ok(http.post("/v1/jobs", files=form, data={"request": json.dumps(request)}))
        _line(job)
    return 0


def _option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _list(http: httpx.Client, parsed: argparse.Namespace) -> int:
    asked = {"limit": parsed.limit} | ({"state": parsed.state} if parsed.state else {})
    for job in _ok(http.get("/v1/jobs", params=asked))["data"]:
        _line(job)
    return 0


def _get(http: httpx.Client, parsed: argparse.Namespace) -> int:
    if parsed.format:
        asked = {"response_format": parsed.format}
        response = http.get(f"/v1/jobs/{parsed.job}/result", params=asked)
        if response.is_error:
            _ok(response)
        sys.stdout.write(response.text)
        return 0
    job = _ok(http.get(f"/v1/jobs/{parsed.job}", params={"partial": "true"}))
    sys.stdout.write(json.dumps(job, indent=2, ensure_ascii=False) + "\n")
    return 0


def _cancel(http: httpx.Client, parsed: argparse.Namespace) -> int:
    _line(_ok(http.post(f"/v1/jobs/{parsed.job}/cancel")))
    return 0


def _delete(http: httpx.Client, parsed: argparse.Namespace) -> int:
    _ok(http.delete(f"/v1/jobs/{parsed.job}"))
    return 0


_ACTIONS = {"submit": _submit, "list": _list, "get": _get, "cancel": _cancel, "delete": _delete}


def _ok(response: httpx.Response) -> Any:
    if response.is_error:
        try:
            message = response.json()["error"]["message"]
        except (ValueError, KeyError, TypeError):
            message = f"it answered {response.status_code}"
        raise MotetError(message, where=str(response.url))
    return response.json()


def _line(job: dict[str, Any]) -> None:
    done = f"{job['progress']['fraction']:.0%}"
    told = f"{job['id']}  {job['state']:<10} {done:>4}  {job['created_at']}  {_title(job)}"
    if job["error"]:
        told += f"  ({_short(job['error']['message'], 200)})"
    sys.stdout.write(told + "\n")


def _title(job: dict[str, Any]) -> str:
    """What a job is about: its name, else what it is made of, else what makes it."""
    given = job["input"]
    known = [given[name] for name in ("name", "prompt", "url", "path") if given.get(name)]
    return _short([*known, job["pipeline"]][0], 60)


def _short(text: str, most: int) -> str:
    """A text in one line of at most so many letters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
