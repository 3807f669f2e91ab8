"""`motet jobs`: a server's jobs from the command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import httpx

from ...components.errors import BadInput, MotetError
from .submitting import submit
from .talking import answered

Json = dict[str, Any]


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
            raise MotetError(
                f"no server answers at {parsed.server} ({error}); see --server"
            ) from error
        except httpx.HTTPError as error:
            said = f"{type(error).__name__}: {error}"
            raise MotetError(f"{said}, of the server at {parsed.server}") from error


def _submit(http: httpx.Client, parsed: argparse.Namespace) -> int:
    return submit(http, parsed, pairs(parsed.metadata, "--metadata"), _line)


def pairs(given: list[str], flag: str) -> dict[str, str]:
    """KEY=VALUE pairs of a flag.

    Raises:
        BadInput: one has no "=".
    """
    for text in given:
        if "=" not in text:
            raise BadInput(f"KEY=VALUE is needed, got {text!r}", where=flag)
    return {key: value for key, _, value in (text.partition("=") for text in given)}


def _list(http: httpx.Client, parsed: argparse.Namespace) -> int:
    asked = {"limit": parsed.limit} | ({"state": parsed.state} if parsed.state else {})
    for job in answered(http.get("/v1/jobs", params=asked)).json()["data"]:
        _line(job)
    return 0


def _each(jobs: list[str], do: Callable[[str], None]) -> int:
    """Do it to every job; one that is refused costs the others nothing."""
    refused = 0
    for job in jobs:
        try:
            do(job)
        except MotetError as error:
            refused = 2
            sys.stderr.write(f"{error}\n")
    return refused


def _get(http: httpx.Client, parsed: argparse.Namespace) -> int:
    def show(job: str) -> None:
        if parsed.format:
            asked = {"response_format": parsed.format}
            sys.stdout.write(answered(http.get(f"/v1/jobs/{job}/result", params=asked)).text)
            return
        found = answered(http.get(f"/v1/jobs/{job}", params={"partial": "true"})).json()
        sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")

    return _each(parsed.jobs, show)


def _cancel(http: httpx.Client, parsed: argparse.Namespace) -> int:
    wanted: Json = {
        "all": parsed.all,
        "state": parsed.state,
        "pipeline": parsed.pipeline,
        "metadata": pairs(parsed.metadata, "--metadata"),
    }
    wanted = {name: value for name, value in wanted.items() if value}
    if bool(wanted) == bool(parsed.jobs):
        raise BadInput("either JOBs or --all, --state, --pipeline, --metadata are needed")
    if wanted:
        gone = answered(http.post("/v1/jobs/cancel", json=wanted)).json()
        sys.stdout.write("".join(f"{job}\n" for job in gone["ids"]))
        sys.stderr.write(f"{gone['count']} cancelled\n")
        return 0

    def stop(job: str) -> None:
        _line(answered(http.post(f"/v1/jobs/{job}/cancel")).json())

    return _each(parsed.jobs, stop)


def _delete(http: httpx.Client, parsed: argparse.Namespace) -> int:
    def remove(job: str) -> None:
        answered(http.delete(f"/v1/jobs/{job}"))

    return _each(parsed.jobs, remove)


_ACTIONS = {"submit": _submit, "list": _list, "get": _get, "cancel": _cancel, "delete": _delete}


def _line(job: Json) -> None:
    done = f"{job['progress']['fraction']:.0%}"
    told = f"{job['id']}  {job['state']:<10} {done:>4}  {job['created_at']}  {_title(job)}"
    if job["error"]:
        told += f"  ({_short(job['error']['message'], 200)})"
    sys.stdout.write(told + "\n")


def _title(job: Json) -> str:
    """What a job is about: its name, else what it is made of, else what makes it."""
    given = job["input"]
    known = [given[name] for name in ("name", "prompt", "url", "path") if given.get(name)]
    return _short([*known, job["pipeline"]][0], 60)


def _short(text: str, most: int) -> str:
    """A text in one line of at most so many letters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
