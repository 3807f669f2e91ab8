"""The command `motet`."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version

# Before numpy is first imported: its BLAS threads would spin beside the engines' own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# We never fork without exec; gRPC would log at every start of a process that it does nothing.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from ..components.errors import MotetError
from .commands import (
    bench,
    canary,
    check,
    components,
    deploy,
    embedcheck,
    jobs,
    keys,
    node,
    plan,
    quality,
    reload,
    serve,
    status,
    transcribe,
)
from .commands.output import Group, write

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors of ours, and what files and
    disks refuse, end it with their message and status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal of another encoding shows codes
            stream.reconfigure(errors="backslashreplace")
    parsed = parser().parse_args(arguments)
    command: Command = parsed.command
    try:
        status = command(parsed)
    except MotetError as error:
        write(str(error), error=True)
        status = 2
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:  # whoever read our output has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    except OSError as error:
        write(f"{error.filename}: {error.strerror}" if error.filename else str(error), error=True)
        status = 2
    sys.exit(status)


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    root = argparse.ArgumentParser("motet", description="Serve graphs of models on your machines.")
    root.add_argument("--version", action="version", version=f"motet {version('motet')}")
    commands = Group(root, "COMMAND")
    for group in (
        serve,
        check,
        components,
        status,
        reload,
        canary,
        keys,
        bench,
        plan,
        transcribe,
        jobs,
        node,
        deploy,
        quality,
        embedcheck,
    ):
        group.add(commands)
    return root
