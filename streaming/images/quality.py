"""`motet quality`: what each saving of a diffusion pipeline costs, as a table and a grid."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from ...components.errors import BadInput
from ...pipelines import load
from ...pipelines.graph import Graph
from .coding import encoded

PROMPTS = ("a red apple", "a rocket", "a dog", "a happy pumpkin")


def run(parsed: argparse.Namespace) -> int:
    """Measure, print the table, and write it with the grid.

    Raises:
        MotetError: the pipeline, its model or a variant is wrong.
    """
    if parsed.seeds < 1:
        raise BadInput(f"--seeds must be at least 1, got {parsed.seeds}")
    report = asyncio.run(measured(load(parsed.pipeline), parsed))
    parsed.out.mkdir(parents=True, exist_ok=True)
    (parsed.out / "quality.md").write_text(report.table() + "\n", encoding="utf-8")
    (parsed.out / "grid.png").write_bytes(encoded(report.grid, "png"))
    sys.stdout.write(f"{report.table()}\n\n{parsed.out / 'grid.png'}: a row per variant\n")
    if all(one.lpips is None for one in report.results):
        sys.stdout.write(f"{hint()}\n")
    return 0


async def measured(graph: Graph, parsed: argparse.Namespace) -> Any:
    """The report of the pipeline's diffusion node, off the loop."""
    from ...components.diffusion.load import load_pipeline
    from ...components.diffusion.options import DiffusionOptions
    from ...components.diffusion.quality import VARIANTS, measure

    found = [node for node in graph.nodes.values() if node.spec.use.startswith("diffusion/")]
    if len(found) != 1:
        raise BadInput(f"{graph.name!r} has {len(found)} diffusion nodes; one is needed")
    spec = found[0].spec
    options = DiffusionOptions.model_validate(spec.options)
    if parsed.steps is not None:
        options = options.model_copy(update={"steps": parsed.steps})
    variants = VARIANTS if parsed.variants is None else read_variants(parsed.variants)
    pipe = await asyncio.to_thread(load_pipeline, spec.model, options)
    return await asyncio.to_thread(
        measure,
        pipe,
        options,
        parsed.prompt or PROMPTS,
        seeds=parsed.seeds,
        frames=(options.frames or 16) if spec.use == "diffusion/video" else 1,
        threads=max(1, int(spec.resources.cpus or 1)),
        variants=variants,
        told=print_progress,
    )


def hint() -> str:
    """What LPIPS lacks."""
    from ...components.diffusion.lpips import HINT

    return HINT


def print_progress(name: str) -> None:
    """Say which variant runs, on the error stream."""
    sys.stderr.write(f"{name} …\n")
    sys.stderr.flush()


def read_variants(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """Variants of a YAML file; their contents are checked when they run.

    Raises:
        BadInput: it is no such file.
    """
    try:
        value: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadInput(f"can't be read: {error}", where=str(path)) from error
    named = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if not named or not all(isinstance(one, dict) for one in named.values()):
        raise BadInput("a mapping of names to mappings is needed", where=str(path))
    return named
