"""`motet canary`: a share of new sessions for a new version, moved, promoted or called off."""

from __future__ import annotations

import argparse

from ...components.errors import BadInput
from .output import Commands, Group, write
from .remote import add_address, ask
from .status import render


def add(commands: Commands) -> None:
    """`motet canary start|share|promote|abort PIPELINE`."""
    command = commands.add_parser("canary", help="try a new version on a share of new sessions")
    actions = Group(command, "ACTION")
    start = actions.add_parser("start", help="begin with a pipeline's file as it is now")
    start.add_argument("--file", help="another file, in the same folder on the server")
    start.add_argument("--share", type=share, default=0.1, help="10%% or 0.1 (10%%)")
    start.add_argument(
        "--max-fault-rate", type=share, default=0.05, help="above it, called off (5%%); 1 never"
    )
    start.add_argument("--min-runs", type=int, default=20, help="runs before it can be (20)")
    start.add_argument(
        "--window-s", type=float, default=600, help="seconds back that runs count (600)"
    )
    start.add_argument("--fresh", action="store_true", help="load also what hasn't changed")
    start.add_argument(
        "--targets",
        nargs="+",
        type=target,
        default=[],
        metavar="NODE=PLACE",
        help="where the new version of a component runs that the server doesn't start itself:"
        " HOST:PORT (remote), an application (rayservice)",
    )
    move = actions.add_parser("share", help="give it another share")
    move.add_argument("--share", type=share, required=True, help="10%% or 0.1")
    promote = actions.add_parser("promote", help="give it all new sessions")
    abort = actions.add_parser("abort", help="give it no more sessions")
    for one in (promote, abort):
        one.add_argument(
            "--drain-s", type=float, help="how long old sessions may last (as any session)"
        )
    for one, run in ((start, run_start), (move, run_share), (promote, run_end), (abort, run_end)):
        one.add_argument("pipeline", metavar="PIPELINE", help="its name, as `motet status` shows")
        add_address(one)
        one.set_defaults(command=run)
    promote.set_defaults(action="promote")
    abort.set_defaults(action="abort")


def share(text: str) -> float:
    """A share as people write it: "10%" or "0.1".

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; possible: 0% to 100%, 0 to 1")
    return value


def target(text: str) -> tuple[str, str]:
    """A node and its place.

    Raises:
        ArgumentTypeError: it isn't NODE=PLACE.
    """
    node, _, place = text.partition("=")
    if not (node and place):
        raise argparse.ArgumentTypeError(f"{text!r} is to be NODE=PLACE: tts=10.0.0.7:50061")
    return node, place


def run_start(parsed: argparse.Namespace) -> int:
    """Begin; it returns once the new version is loaded and gets sessions."""
    names = ("file", "share", "max_fault_rate", "min_runs", "window_s", "fresh")
    body = {name: getattr(parsed, name) for name in names}
    return change(parsed, "POST", "", {**body, "targets": dict(parsed.targets)})


def run_share(parsed: argparse.Namespace) -> int:
    """Move the share."""
    return change(parsed, "PATCH", "", {"share": parsed.share})


def run_end(parsed: argparse.Namespace) -> int:
    """Promote or abort."""
    return change(parsed, "POST", f"/{parsed.action}", {"drain_s": parsed.drain_s})


def change(parsed: argparse.Namespace, method: str, path: str, body: dict[str, object]) -> int:
    """Ask for a change and print how the pipeline is after it."""
    if "/" in parsed.pipeline:
        raise BadInput("give the pipeline's name, as `motet status` shows it", where="PIPELINE")
    where = f"/v1/admin/pipelines/{parsed.pipeline}/canary{path}"
    answer = ask(parsed, where, method=method, body=body, timeout_s=None)
    write(render({"pipelines": [answer]}))
    return 0
