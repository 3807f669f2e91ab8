"""`motet jobs` and `motet worker`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..targets import SUFFIXES
from .output import Commands, Group
from .remote import address

MOST_LISTED = 100
STATES = ("queued", "running", "completed", "failed", "cancelled")
_METADATA: dict[str, Any] = {"action": "append", "default": [], "metavar": "KEY=VALUE"}


def add(commands: Commands) -> None:
    """`motet jobs` speaks to a server; `motet worker` runs the jobs that servers took in."""
    add_jobs(commands.add_parser("jobs", help="jobs: submit, list, get, cancel, delete"))
    worker = commands.add_parser("worker", help="run jobs that servers took in")
    worker.add_argument("files", nargs="*", metavar="FILE", help="pipeline files (transcribe)")
    worker.add_argument("--concurrency", type=int, default=8, help="jobs at once (8)")
    worker.add_argument("--data-dir", type=Path, help="the servers' data folder (.motet)")
    worker.add_argument(
        "--allow-loopback-urls",
        action="store_true",
        default=None,
        help="as the servers' own: inputs and webhooks may be on this machine, for development",
    )
    worker.set_defaults(command=run_worker)


def add_jobs(command: argparse.ArgumentParser) -> None:
    """Arguments of `motet jobs`."""
    actions = Group(command, "ACTION", "action")
    submit = _add_submit(actions)
    listed = actions.add_parser("list", help="the newest jobs")
    listed.add_argument("--state", choices=STATES, help="only those (all)")
    listed.add_argument("--limit", type=page, default=20, help="how many at most, to 100 (20)")
    get = actions.add_parser("get", help="jobs and their results")
    get.add_argument("--format", choices=list(SUFFIXES), help="a transcript in this format")
    cancel = actions.add_parser("cancel", help="stop jobs: those named, or all that fit")
    cancel.add_argument("--all", action="store_true", help="every job that isn't over")
    cancel.add_argument("--state", choices=STATES[:2], help="those of this state")
    cancel.add_argument("--pipeline", help="those of this pipeline")
    cancel.add_argument("--metadata", **_METADATA, help="those with it; may be repeated")
    delete = actions.add_parser("delete", help="remove jobs and what is kept of them")
    for action, least in ((get, "+"), (cancel, "*"), (delete, "+")):
        action.add_argument(
            "jobs", nargs=least, metavar="JOB", help="its id, as `motet jobs list` shows it"
        )
    _add_server(command, "http://localhost:8000", None)
    for action in (submit, listed, get, cancel, delete):
        _add_server(action, argparse.SUPPRESS, argparse.SUPPRESS)
    command.set_defaults(command=run_jobs)


def _add_server(command: argparse.ArgumentParser, server: str, key: str | None) -> None:
    """Where the server is and who asks, with these defaults."""
    told = "address of the server (http://localhost:8000)"
    command.add_argument("--server", "--url", type=address, default=server, help=told)
    command.add_argument("--key", default=key, help="API key (or MOTET_API_KEY)")


def page(text: str) -> int:
    """How many jobs to list at once.

    Raises:
        ArgumentTypeError: fewer or more than the server shows.
    """
    if not text.isdecimal() or not 1 <= int(text) <= MOST_LISTED:
        raise argparse.ArgumentTypeError(f"possible: 1 to {MOST_LISTED}, got {text}")
    return int(text)


def _add_submit(actions: Group) -> argparse.ArgumentParser:
    submit = actions.add_parser("submit", help="upload files as jobs")
    submit.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="what to upload, a job each"
    )
    submit.add_argument("--pipeline", default="transcribe", help="its name (transcribe)")
    submit.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="of the pipeline, as language=de; may be repeated",
    )
    submit.add_argument("--metadata", **_METADATA, help="goes along in events; may be repeated")
    submit.add_argument("--priority", type=int, help="-100 to 100, as far as the key allows")
    submit.add_argument("--webhook", metavar="URL", help="what hears of the end of these jobs")
    submit.add_argument("--wait", action="store_true", help="until all are over")
    submit.add_argument(
        "--output", type=Path, metavar="DIR", help="wait, and write results there (beside each)"
    )
    submit.add_argument(
        "--format", choices=list(SUFFIXES), help="wait, and write results in this format (text)"
    )
    submit.add_argument("--force", action="store_true", help="write over what is there")
    return submit


def run_jobs(parsed: argparse.Namespace) -> int:
    """Do what was asked of a server's jobs."""
    from ..jobs.command import run

    return run(parsed)


def run_worker(parsed: argparse.Namespace) -> int:
    """Run jobs until a signal ends it."""
    from ...pipelines import load
    from ..jobs.worker import work
    from ..settings import from_environment

    flags = {"data_dir": parsed.data_dir, "allow_loopback_urls": parsed.allow_loopback_urls}
    settings = from_environment(flags)
    graphs = [load(file) for file in parsed.files or ["transcribe"]]
    return work(graphs, settings, concurrency=parsed.concurrency)
