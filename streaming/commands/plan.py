"""`motet plan` and `motet bench profile`: measure a graph, then say what a day of it needs."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...components.errors import BadInput
from ...components.frames import End, Fault, Frame, Generate, Message, Prompt, TextDelta, TextInput
from ...pipelines import Graph, Pipeline, load
from ...pipelines.plan import Simulation
from ...pipelines.planinputs import Habits, Machine, Prices, read_arrivals, steady
from ...pipelines.planreport import Planner, one_each, render
from ...pipelines.profile import Profile, Recorded, ordered
from ...pipelines.runtimes import runtime_of
from ...pipelines.runtimes.base import share_cores
from ...pipelines.runtimes.local import setup_of
from .output import Commands, write

SAMPLES: tuple[Frame, ...] = (
    Prompt((Message("user", "Tell me something about the weather, in one sentence."),)),
    Generate("a small red house"),
    TextInput("A sentence that is to be embedded."),
    TextDelta("This is a sentence that is to be spoken."),
)
"""What `motet bench profile` sends: the first that the graph takes."""

TURNS = 40
"""How many turns are measured at each number at once, at least."""

FEWEST_ROUNDS = 4
PAUSE_S = 0.3
"""Before a turn that is measured alone: without one the process and its caches never cool, and it
takes half as long as those that come now and then."""

BURSTS, BURST = 7, 4
"""How often, and how many, turns begin all at once, to see whether they wait for one another."""


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
    command.add_argument("--death-at-s", type=float, help="a machine dies then")
    command.add_argument("--seed", type=int, default=0, help="of the simulated day (0)")
    command.set_defaults(command=run_plan)


def run_plan(parsed: argparse.Namespace) -> int:
    """Simulate and print; status 1 if the target isn't kept."""
    graph, profile = load(parsed.file), Profile.load(parsed.profile)
    habits = Habits(parsed.session_s, parsed.think_s)
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
    resources = share_cores(graph, float(os.cpu_count() or 1))
    concurrency = {
        name: setup_of(node, resources[name]).concurrency for name, node in graph.nodes.items()
    }

    def simulate(changed: Graph) -> Simulation:
        return Simulation(changed, profile, concurrency, habits=habits, seed=parsed.seed)

    planner = Planner(
        graph=graph,
        profile=profile,
        concurrency=concurrency,
        resources=resources,
        arrivals=arrivals,
        seconds=seconds,
        prices=Prices.load(parsed.prices) if parsed.prices else this_machine(),
        target_s=seconds_of(parsed.p95),
        simulate=simulate,
    )
    plan = planner.plan(death_at_s=parsed.death_at_s)
    write(render(plan))
    return 0 if plan.outcome.percentile(0.95) <= plan.target_s else 1


def this_machine() -> Prices:
    """Machines like this one, free of charge: for a plan without a price file."""
    cores = float(os.cpu_count() or 1)
    return Prices(machines={"like-this-one": Machine(per_hour=0.0, cpus=cores, gpus=8)})


def seconds_of(text: str) -> float:
    """ "800ms", "1.2s" or "2" (seconds) in seconds.

    Raises:
        BadInput: it is no time.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s)?", text.strip())
    if match is None:
        raise BadInput(f"{text!r} is no time; write 800ms or 1.2s", where="--p95", param="p95")
    return float(match[1]) / (1000 if match[2] == "ms" else 1)


def add_profile(command: argparse.ArgumentParser) -> None:
    """Arguments of `motet bench profile`."""
    command.add_argument("file", metavar="FILE", help="pipeline file")
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
    profile = asyncio.run(measure(load(parsed.file), parsed.turns, parsed.active, parsed.runtime))
    profile.save(parsed.out)
    counts = ", ".join(f"{name}: {len(node.runs)} runs" for name, node in profile.nodes.items())
    write(f"{parsed.out}: {counts}")
    return 0


def add_comparison(command: argparse.ArgumentParser) -> None:
    """Arguments of `motet bench plan`."""
    command.add_argument("file", metavar="FILE", help="pipeline file")
    command.add_argument("--profile", type=Path, help="of `motet bench profile`; else measured now")
    command.add_argument("--sessions", type=int, nargs="+", default=[2, 4, 8], help="at once")
    command.add_argument("--seconds", type=float, default=75.0, help="of each load (75)")
    command.add_argument("--session-s", type=float, default=20.0, help="mean length of a session")
    command.add_argument("--think-s", type=float, default=1.0, help="mean time between turns (1)")
    command.add_argument(
        "--runtime", choices=["workers", "ray"], default="workers", help="what serves (workers)"
    )
    command.set_defaults(command=run_comparison)


def run_comparison(parsed: argparse.Namespace) -> int:
    """Plan each load, serve it, and print how far off the plan was."""
    from ..bench.plan import Comparison, Load, planned, render, serve

    graph, cores = load(parsed.file), float(os.cpu_count() or 1)
    if parsed.profile is None:
        profile = asyncio.run(measure(graph, TURNS, runtime=parsed.runtime))
    else:
        profile = Profile.load(parsed.profile)
    found: list[Comparison] = []
    for sessions in parsed.sessions:
        one = Load(sessions, parsed.seconds, Habits(parsed.session_s, parsed.think_s))
        served = asyncio.run(serve(graph, parsed.runtime, sample_of(graph), one))
        found.append(Comparison(one, planned(graph, profile, one, cores), served))
    write(render(found))
    return 0


def sample_of(graph: Graph) -> Frame:
    """The first of the samples that the graph takes.

    Raises:
        BadInput: it takes none.
    """
    sample = next((one for one in SAMPLES if graph.entries(type(one))), None)
    if sample is None:
        kinds = ", ".join(type(one).__name__ for one in SAMPLES)
        raise BadInput(f"{graph.name!r} takes none of {kinds}", where="profile")
    return sample


async def measure(
    graph: Graph, turns: int, levels: Sequence[int] | None = None, runtime: str = "local"
) -> Profile:
    """Run turns on one replica of each node, `levels` at once (None: doubling, up to what a
    replica serves), and note what every node's component takes.

    No more at once than a replica serves: runs that waited would look slow. At each level at least
    `turns`, and several of each that is at work; a first one, which warms up, isn't counted.

    Raises:
        BadInput: the graph takes none of the samples.
        MotetError: a turn failed.
    """
    sample, single = sample_of(graph), one_each(graph)
    recorded = Recorded(runtime_of(runtime, single))
    async with Pipeline(single, recorded) as pipeline:
        most = min(one.concurrency for one in recorded.status())
        if levels is None:
            levels = [*(2**power for power in range(most.bit_length())), most]
        await _turns(pipeline, sample, iter(range(1)))
        recorded.forget()
        for level in sorted({min(level, most) for level in levels}):
            pause_s = PAUSE_S if level == 1 else 0.0
            left = iter(range(max(turns, FEWEST_ROUNDS * level)))
            await asyncio.gather(*(_turns(pipeline, sample, left, pause_s) for _ in range(level)))
        profile = recorded.profile(f"{platform.machine()}, {os.cpu_count()} cores")
        bursts: list[Profile] = []
        for _ in range(BURSTS if most > 1 else 0):
            recorded.forget()
            await asyncio.sleep(PAUSE_S)
            each = (_turns(pipeline, sample, iter(range(1))) for _ in range(min(most, BURST)))
            await asyncio.gather(*each)
            bursts.append(recorded.profile())
        return ordered(profile, bursts)


async def _turns(
    pipeline: Pipeline, sample: Frame, left: Iterator[int], pause_s: float = 0.0
) -> None:
    """One turn after the other, each after a pause, as long as there are any left to begin."""
    async with pipeline.session() as session:
        for turn, _ in enumerate(left, 1):
            await asyncio.sleep(pause_s)
            session.start(turn, sample)
            async for number, node, frame in session:
                if isinstance(frame, Fault):
                    raise BadInput(f"a turn failed: {frame.message}", where=node)
                if number == turn and isinstance(frame, End):
                    break
