"""`motet status`: replicas, sessions, queues and cold starts of a running server."""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

import httpx

from ...components.errors import ComponentFailed
from .output import Commands, write

HEAD = ("node", "use", "replicas", "active", "queued", "refused", "start s", "versions")


def add(commands: Commands) -> None:
    """`motet status`."""
    command = commands.add_parser("status", help="replicas, sessions and queues of a server")
    command.add_argument("--url", default="http://127.0.0.1:8000")
    command.add_argument("--key", default=os.environ.get("MOTET_API_KEY"), help="API key")
    command.add_argument("--watch", action="store_true", help="again every two seconds")
    command.add_argument("--json", action="store_true", help="the server's answer as it is")
    command.set_defaults(command=run_status)


def run_status(parsed: argparse.Namespace) -> int:
    """Ask and print, once or until it is interrupted; status 1 while the server isn't ready."""
    while True:
        answer = ask(parsed.url, parsed.key)
        write(json.dumps(answer) if parsed.json else render(answer))
        if not parsed.watch:
            return 0 if answer["ready"] else 1
        time.sleep(2)


def ask(url: str, key: str | None) -> dict[str, Any]:
    """The server's status.

    Raises:
        ComponentFailed: it can't be reached, or refuses.
    """
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        response = httpx.get(f"{url.rstrip('/')}/v1/status", headers=headers, timeout=10)
        response.raise_for_status()
    except httpx.HTTPStatusError as error:
        said = error.response.text[:200]
        raise ComponentFailed(f"HTTP {error.response.status_code}: {said}", where=url) from error
    except httpx.HTTPError as error:
        raise ComponentFailed(f"no server answers: {error}; see --url", where=url) from error
    return response.json()


def render(answer: dict[str, Any]) -> str:
    """The answer as tables, one for each pipeline."""
    lines: list[str] = []
    for pipeline in answer["pipelines"]:
        state = "ready" if pipeline["ready"] else "not ready"
        taken = f"{pipeline['sessions']} of {pipeline['max_sessions']} sessions"
        lines.append(f"{pipeline['name']}: {state}, {taken}")
        rows = [HEAD, *(row_of(node) for node in pipeline["nodes"])]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def row_of(node: dict[str, Any]) -> tuple[str, ...]:
    """One node's cells."""
    replicas = node["replicas"]
    ready = sum(replica["state"] == "ready" for replica in replicas)
    starts = [replica["started_s"] for replica in replicas]
    return (
        node["node"],
        node["use"],
        f"{ready}/{len(replicas)}",
        f"{node['active']}/{node['concurrency'] * max(ready, 1)}",
        str(node["queued"]),
        str(node["refused"]),
        f"{max(starts):.1f}" if starts else "-",
        ", ".join(sorted({str(replica["version"]) for replica in replicas})),
    )
