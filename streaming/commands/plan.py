"""`motet plan`: say what a day of a pipeline needs, from what was measured of it."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from ...components.errors import BadInput
from ...pipelines import Graph, load
from ...pipelines.plan.cores import Room
from ...pipelines.plan.inputs import Habits, Machine, Prices, read_arrivals, steady
from ...pipelines.plan.profile import Profile
from ...pipelines.plan.report import Planner, render
from ...pipelines.plan.simulation import Simulation
from ...pipelines.runtimes.base import share_cores
from ...pipelines.runtimes.local import setup_of
from .output import Commands, write


def add(commands: Commands) -> None:
    """`motet plan`."""
    command = commands.add_parser("plan", help="what a load needs, simulated: replicas, cost, p95")
    command.add_argument("file", metavar="FILE", help="pipeline file")
    command.add_argument("--profile", type=Path, required=True, help="of `motet bench profile`")
    command.add_argument(
        "--sessions", type=int, help="at once at the peak; callers, where it takes requests"
    )
    command.add_argument("--arrivals", type=Path, help="CSV: time_s,sessions or time_s,length_s")
    command.add_argument("--hours", type=float, default=1.0, help="without --arrivals: how long")
    command.add_argument("--p95", default="800ms", help="time to first output that is to be kept")
    command.add_argument("--session-s", type=float, default=180.0, help="mean length of a session")
    command.add_argument("--think-s", type=float, default=6.0, help="mean time between turns (6)")
    command.add_argument("--prices", type=Path, help="YAML: machines and their prices")
    command.add_argument(
        "--cores", type=float, help="of each machine (as many as that of the profile has)"
    )
    command.add_argument(
        "--machines", type=int, help="at most; further replicas share them (as many as are needed)"
    )
    command.add_argument("--death-at-s", type=float, help="a machine dies then")
    command.add_argument("--seed", type=int, default=0, help="of the simulated day (0)")
    command.set_defaults(command=run_plan)


def run_plan(parsed: argparse.Namespace) -> int:
    """Simulate and print; status 1 if the target isn't kept."""
    graph, profile = load(parsed.file), Profile.load(parsed.profile)
    habits = Habits(parsed.session_s, parsed.think_s, parsed.seed)
    seconds, requests = parsed.hours * 3600, graph.spec.conversation is None
    if parsed.arrivals is not None:
        arrivals, seconds = read_arrivals(
            parsed.arrivals,
            peak_sessions=parsed.sessions,
            habits=habits,
            seed=parsed.seed,
            requests=requests,
        )
    elif parsed.sessions:
        arrivals = steady(parsed.sessions, seconds, habits, parsed.seed, requests=requests)
    else:
        raise BadInput("say how many: --sessions N, or --arrivals FILE", where="plan")
    cores = parsed.cores or profile.cores or float(os.cpu_count() or 1)
    resources = share_cores(graph, cores)
    room = Room(cores, parsed.machines, {name: one.cpus for name, one in resources.items()})
    concurrency = {
        name: setup_of(node, resources[name]).concurrency for name, node in graph.nodes.items()
    }

    def simulate(changed: Graph) -> Simulation:
        return Simulation(changed, profile, concurrency, habits=habits, room=room, seed=parsed.seed)

    planner = Planner(
        graph=graph,
        profile=profile,
        concurrency=concurrency,
        resources=resources,
        arrivals=arrivals,
        seconds=seconds,
        prices=Prices.load(parsed.prices) if parsed.prices else unpriced(cores),
        target_s=seconds_of(parsed.p95),
        simulate=simulate,
    )
    plan = planner.plan(death_at_s=parsed.death_at_s)
    write(render(plan))
    return 0 if plan.outcome.percentile(0.95) <= plan.target_s else 1


def unpriced(cores: float) -> Prices:
    """Machines of so many cores, free of charge: for a plan without a price file."""
    name = f"machine of {cores:g} cores"
    return Prices(machines={name: Machine(per_hour=0.0, cpus=cores, gpus=8)})


def seconds_of(text: str) -> float:
    """ "800ms", "1.2s" or "2" (seconds) in seconds.

    Raises:
        BadInput: it is no time.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s)?", text.strip())
    if match is None:
        raise BadInput(f"{text!r} is no time; write 800ms or 1.2s", where="--p95", param="p95")
    return float(match[1]) / (1000 if match[2] == "ms" else 1)
