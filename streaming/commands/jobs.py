"""`motet jobs` and `motet worker`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .output import Commands, Group
from .remote import address

STATES = ("queued", "running", "completed", "failed", "cancelled")
FORMATS = ("json", "text", "srt", "vtt", "verbose_json", "diarized_json")


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
    command.add_argument(
        "--server",
        "--url",
        type=address,
        default="http://localhost:8000",
        help="address of the server (http://localhost:8000)",
    )
    command.add_argument("--key", help="API key (or MOTET_API_KEY)")
    actions = Group(command, "ACTION", "action")
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
    submit.add_argument("--priority", type=int, help="-100 to 100, as far as the key allows")
    listed = actions.add_parser("list", help="the newest jobs")
    listed.add_argument("--state", choices=STATES, help="only those (all)")
    listed.add_argument("--limit", type=int, default=20, help="how many at most (20)")
    for name, told in (("get", "a job and its result"), ("cancel", "stop"), ("delete", "remove")):
        action = actions.add_parser(name, help=told)
        action.add_argument("job", metavar="JOB", help="its id, as `motet jobs list` shows it")
        if name == "get":
            action.add_argument("--format", choices=FORMATS, help="a transcript in this format")
    command.set_defaults(command=run_jobs)


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
