"""What commands share: their place in the grammar, and what they print."""

from __future__ import annotations

import argparse
import sys
from typing import Protocol


class Commands(Protocol):
    """Where a command is added: argparse's sub-parsers, which have no public type."""

    def add_parser(self, name: str, *, help: str) -> argparse.ArgumentParser:
        """A parser for the command of that name."""
        ...


def write(text: str, *, error: bool = False) -> None:
    """Print a line, to the error stream where it isn't the command's answer."""
    target = sys.stderr if error else sys.stdout
    target.write(text + "\n")
    target.flush()
