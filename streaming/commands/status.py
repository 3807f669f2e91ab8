"""`motet status`: versions, replicas, sessions, queues and cold starts of a running server."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from .output import Commands, write
from .remote import add_address, ask

VERSIONS = ("version", "role", "share", "sessions", "runs", "faults", "file")
HEAD = ("node", "use", "replicas", "active", "queued", "refused", "start s", "version")
EVENTS = 3


def add(commands: Commands) -> None:
    """`motet status`."""
    command = commands.add_parser("status", help="replicas, sessions and queues of a server")
    add_address(command)
    command.add_argument("--watch", action="store_true", help="again every two seconds")
    command.add_argument("--json", action="store_true", help="the server's answer as it is")
    command.set_defaults(command=run_status)


def run_status(parsed: argparse.Namespace) -> int:
    """Ask and print, once or until it is interrupted; status 1 while the server isn't ready."""
    while True:
        answer = ask(parsed, "/v1/status")
        write(json.dumps(answer) if parsed.json else render(answer))
        if not parsed.watch:
            return 0 if answer["ready"] else 1
        time.sleep(2)


def render(answer: dict[str, Any]) -> str:
    """The answer as tables, for each pipeline its versions (once there was a second one) and its
    nodes, those of all versions."""
    lines: list[str] = []
    for pipeline in answer["pipelines"]:
        state = "ready" if pipeline["ready"] else "not ready"
        taken = f"{pipeline['sessions']} of {pipeline['max_sessions']} sessions"
        lines.append(f"{pipeline['name']}: {state}, {taken}")
        versions = pipeline["versions"]
        if pipeline["events"]:
            lines += table([VERSIONS, *(version_row(one) for one in versions)])
            lines += [event_line(one) for one in pipeline["events"][-EVENTS:]]
        nodes = [node for version in versions for node in version["nodes"]]
        lines += table([HEAD, *(node_row(node) for node in nodes)])
    lines += [task_line(task) for task in answer.get("tasks", []) if not task["up"]]
    return "\n".join(lines)


def task_line(task: dict[str, Any]) -> str:
    """A task of the server that doesn't work."""
    return (
        f"{task['name']}: down for {task['down_s']:.0f} s, begun again {task['restarts']} times:"
        f" {task['reason']}"
    )


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with their columns below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        (
            "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def version_row(version: dict[str, Any]) -> tuple[str, ...]:
    """One version's cells."""
    role = version["role"]
    if role != "retiring" and not version["ready"]:
        role += ", not ready"
    return (
        version["version"],
        role,
        f"{version['share']:.0%}",
        str(version["sessions"]),
        str(version["runs"]),
        str(version["faults"]),
        version["file"] or "-",
    )


def event_line(event: dict[str, Any]) -> str:
    """What happened to the versions, with the time of this machine."""
    at = datetime.fromtimestamp(event["at"]).astimezone()
    return f"  {at:%Y-%m-%d %H:%M:%S}  {event['text']}"


def node_row(node: dict[str, Any]) -> tuple[str, ...]:
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
        node["version"],
    )
