"""`motet bench profile` and `motet bench plan`: measure a graph; do plans come true?"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from ...components.errors import BadInput
from ...pipelines import load
from ...pipelines.plan.inputs import Habits
from ...pipelines.plan.profile import Profile
from ..bench.samples import HELP, samples_of
from .output import write

TURNS = 40
"""How many runs are measured at each number at once, at least."""


def add_profile(command: argparse.ArgumentParser) -> None:
    """Arguments of `motet bench profile`."""
    command.epilog = HELP
    command.add_argument("file", metavar="FILE", help="pipeline file")
    command.add_argument("--inputs", type=Path, help="text file; each line is sent as a turn")
    command.add_argument("--out", type=Path, required=True, help="where the profile goes")
    command.add_argument("--turns", type=int, default=TURNS, help="turns at each level")
    command.add_argument(
        "--active", type=int, nargs="+", help="turns at once (1, 2, 4 ... to what a replica serves)"
    )
    command.add_argument(
        "--runtime",
        choices=["local", "workers", "ray"],
        default="local",
        help="where it is measured (local)",
    )
    command.set_defaults(command=run_profile)


def run_profile(parsed: argparse.Namespace) -> int:
    """Measure the service times of a graph's turns and write them."""
    from ..bench.profile import measure

    graph = load(parsed.file)
    samples = samples_of(graph, parsed.inputs)
    profile = asyncio.run(measure(graph, samples, parsed.turns, parsed.active, parsed.runtime))
    profile.save(parsed.out)
    counts = ", ".join(f"{name}: {len(node.runs)} runs" for name, node in profile.nodes.items())
    write(f"{parsed.out}: {counts}")
    return 0


def add_comparison(command: argparse.ArgumentParser) -> None:
    """Arguments of `motet bench plan`."""
    command.epilog = HELP
    command.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="pipeline file; without one, an engine that waits, whose replicas grow in a surge",
    )
    command.add_argument("--inputs", type=Path, help="text file; each line is sent as a turn")
    command.add_argument("--profile", type=Path, help="of `motet bench profile`; else measured now")
    command.add_argument("--sessions", type=int, nargs="+", default=[4, 8, 12], help="at once")
    command.add_argument("--seconds", type=float, default=75.0, help="of each load (75)")
    command.add_argument("--session-s", type=float, default=20.0, help="mean length of a session")
    command.add_argument("--think-s", type=float, default=1.0, help="mean time between turns (1)")
    command.add_argument(
        "--surge", action="store_true", help="a quarter of the load but for the middle third"
    )
    command.add_argument(
        "--runtime", choices=["workers", "ray"], default="workers", help="what serves (workers)"
    )
    command.set_defaults(command=run_comparison)


def run_comparison(parsed: argparse.Namespace) -> int:
    """Plan each load, serve it, and print how far off the plan was."""
    from ..bench.growth import TURNS as GROWING_TURNS
    from ..bench.growth import growing
    from ..bench.plan import Comparison, Load, planned, render, serve
    from ..bench.profile import measure

    graph = growing() if parsed.file is None else load(parsed.file)
    samples, habits = samples_of(graph, parsed.inputs), Habits(parsed.session_s, parsed.think_s)
    if parsed.profile is None:
        turns = GROWING_TURNS if parsed.file is None else TURNS
        profile = asyncio.run(measure(graph, samples, turns, runtime=parsed.runtime))
    elif parsed.file is None:
        raise BadInput("--profile goes with a FILE, of which it is", where="bench plan")
    else:
        profile = Profile.load(parsed.profile)
    if profile.samples != len(samples):
        message = f"it is of {profile.samples} inputs, and {len(samples)} are sent"
        raise BadInput(message, where=str(parsed.profile))
    found: list[Comparison] = []
    for sessions in parsed.sessions:
        one = Load(sessions, parsed.seconds, habits, surge=parsed.surge or parsed.file is None)
        served = asyncio.run(serve(graph, parsed.runtime, samples, one))
        found.append(Comparison(one, planned(graph, profile, one), served))
    write(render(found))
    return 0
