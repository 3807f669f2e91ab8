"""What commands share: their place in the grammar, and what they print."""

from __future__ import annotations

import argparse
import sys
from typing import Protocol


class Commands(Protocol):
    """Where a command is added: argparse's sub-parsers, which have no public type."""

    def add_parser(self, name: str, *, help: str) -> argparse.ArgumentParser:
        """A parser for the command of that name; `help` is what is told of it."""
        ...


class Group:
    """The commands within a command; each tells in its own help what it does."""

    def __init__(self, command: argparse.ArgumentParser, metavar: str, dest: str = "") -> None:
        self._commands = command.add_subparsers(
            required=True, metavar=metavar, dest=dest or argparse.SUPPRESS
        )

    def add_parser(self, name: str, *, help: str) -> argparse.ArgumentParser:
        """A parser for the command of that name; `help` is what is told of it."""
        told = f"{help[0].upper()}{help[1:]}."
        return self._commands.add_parser(name, help=help, description=told)


def write(text: str, *, error: bool = False) -> None:
    """Print a line, to the error stream where it isn't the command's answer."""
    target = sys.stderr if error else sys.stdout
    target.write(text + "\n")
    target.flush()
