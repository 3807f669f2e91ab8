"""`motet jobs submit`: files become jobs, which may be waited for and their results written."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from ...components.errors import BadInput, MotetError
from ..board import Board
from ..targets import targets, write_whole
from .talking import answered, ended
from .webhooks import new_secret

Json = dict[str, Any]


def submit(
    http: httpx.Client,
    parsed: argparse.Namespace,
    metadata: dict[str, str],
    line: Callable[[Json], None],
) -> int:
    """Make a job of each file, and print it by `line`; 1 if one that was waited for failed.

    Raises:
        BadInput: a file isn't there, or a result would be written over something.
    """
    files: list[Path] = list(dict.fromkeys(parsed.files))
    for path in files:
        if not path.is_file():
            raise BadInput(f"no file {str(path)!r}", where="submit", param="file")
    places = _places(parsed, files)
    board = Board()
    request = _request(parsed, metadata, board)
    jobs: dict[Path, str] = {}
    for path in files:
        with path.open("rb") as file:
            form = {"file": (path.name, file)}
            sent = http.post("/v1/jobs", files=form, data={"request": json.dumps(request)})
        job = answered(sent).json()
        jobs[path] = job["id"]
        line(job)
    if not parsed.wait and not places:
        return 0
    ends = [_follow(http, job, path, places.get(path), parsed, board) for path, job in jobs.items()]
    return 0 if all(ends) else 1


def _places(parsed: argparse.Namespace, files: list[Path]) -> dict[Path, Path]:
    if parsed.output is None and parsed.format is None:
        return {}
    places = targets(files, parsed.format or "text", parsed.output)
    there = [str(place) for place in places.values() if place.exists()]
    if there and not parsed.force:
        raise BadInput(f"{', '.join(there)}: there already; --force writes over it")
    return places


def _request(parsed: argparse.Namespace, metadata: dict[str, str], board: Board) -> Json:
    request: Json = {
        "pipeline": parsed.pipeline,
        "options": dict(_option(text) for text in parsed.option),
        "metadata": metadata,
        "priority": parsed.priority,
    }
    if parsed.webhook:
        secret = new_secret()
        request["webhook"] = {"url": parsed.webhook, "secret": secret}
        board.say(f"events to {parsed.webhook} are signed with {secret}")
    return request


def _option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _follow(
    http: httpx.Client,
    job_id: str,
    file: Path,
    place: Path | None,
    parsed: argparse.Namespace,
    board: Board,
) -> bool:
    """Wait for a job, and write its result; whether it was completed."""

    def show(job: Json) -> None:
        board.show(str(file), job["progress"]["done"], job["progress"]["total"])

    try:
        job = ended(http, job_id, show)
        if job["state"] != "completed":
            why = f": {job['error']['message']}" if job["error"] else ""
            board.say(f"{file}: {job['state']}{why}")
            return False
        if place is not None:
            asked = {"response_format": parsed.format or "text"}
            result = answered(http.get(f"/v1/jobs/{job_id}/result", params=asked))
            write_whole(place, result.content)
    except MotetError as error:
        board.say(f"{file}: {error}")
        return False
    board.say(f"{file}: {place or 'completed'}")
    return True
