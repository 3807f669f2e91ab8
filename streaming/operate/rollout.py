"""Changes of what a running server serves: pipeline files read again, canaries begun."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...components.errors import BadInput, Flaw, MotetError, SpecError, nearest
from ...pipelines.canary import CanarySpec
from ...pipelines.graph import Graph
from ...pipelines.pipeline import Pipeline
from ...pipelines.validate import find, load
from ...pipelines.version import Version
from ..server import Server

logger = logging.getLogger("motet")


def named(server: Server, name: str) -> Pipeline:
    """The pipeline of that very name.

    Raises:
        BadInput: there is none.
    """
    found = server.pipelines.get(name)
    if found is None:
        raise BadInput(
            f"no pipeline {name!r:.80}; {nearest(name, list(server.pipelines))}",
            where="pipeline",
            param="pipeline",
        )
    return found


async def reload(
    server: Server,
    names: Sequence[str] = (),
    *,
    fresh: bool = False,
    drain_s: float | None = None,
) -> dict[str, str]:
    """Read the files of these pipelines (none: of all) again, and serve what they hold now.

    All or nothing: every file is checked and every new version started before the first new
    session goes to one. Sessions that run stay on the old version, for at most `drain_s` (None: as
    long as a session may last). `fresh` loads also what hasn't changed. What became of each
    pipeline: "version N", or "unchanged".

    Raises:
        BadInput: there is no such pipeline.
        SpecError: with the faults of all files.
        Conflict: a canary or another change is under way.
        MotetError: a new version couldn't be loaded.
    """
    wanted = [named(server, name) for name in names] or list(server.pipelines.values())
    graphs = await asyncio.to_thread(read, [pipeline.graph.file for pipeline in wanted])
    told: dict[str, str] = {}
    started: list[tuple[Pipeline, Version]] = []
    try:
        for pipeline, graph in zip(wanted, graphs, strict=True):
            if graph.spec == pipeline.graph.spec and not fresh:
                told[pipeline.name] = "unchanged"
                continue
            version = await pipeline.versions.start(graph, fresh=fresh)
            started.append((pipeline, version))
            told[pipeline.name] = f"version {version.id}"
    except BaseException:
        for pipeline, version in started:
            await pipeline.versions.discard(version)
        raise
    for pipeline, version in started:
        pipeline.versions.adopt(version, drain_s=drain_s)
    server.changed()
    return told


def read(files: Sequence[str]) -> list[Graph]:
    """The graphs of these files. Blocks.

    Raises:
        SpecError: with the faults of all of them, or one was made without a file.
    """
    graphs: list[Graph] = []
    flaws: list[Flaw] = []
    for file in files:
        try:
            if not file:
                raise SpecError([Flaw("", "a pipeline made in Python has no file to read again")])
            graphs.append(load(file))
        except SpecError as error:
            flaws += [Flaw("", flaw.render(error.file)) for flaw in error.flaws]
    if flaws:
        raise SpecError(flaws)
    return graphs


async def begin_canary(
    pipeline: Pipeline,
    file: str | None,
    spec: CanarySpec,
    *,
    fresh: bool = False,
    targets: Mapping[str, str] = {},
) -> Version:
    """Start what the pipeline's file holds now, or a file beside it, as its canary. `targets` say
    where changed components are that others start; see `Runtime.successor`.

    Raises:
        BadInput: the file isn't in the folder of the pipeline's.
        SpecError: it has faults, or serves other clients than the stable version.
        Conflict: a canary or another change is under way.
        MotetError: it couldn't be loaded.
    """
    (graph,) = await asyncio.to_thread(read, [beside(pipeline.graph.file, file)])
    version = await pipeline.versions.start(graph, fresh=fresh, targets=targets)
    try:
        pipeline.versions.begin(version, spec)
    except MotetError:
        await pipeline.versions.discard(version)
        raise
    return version


def beside(served: str, file: str | None) -> str:
    """The served file itself, or another in its folder: a request must not read others.

    Raises:
        BadInput: it isn't there.
    """
    if file is None or not served:
        return served
    folder = find(served).parent
    if Path(file).name != file or not (folder / file).is_file():
        there = sorted(one.name for one in folder.glob("*.yaml"))
        raise BadInput(
            f"no file {file!r:.80} lies beside the one that is served; {nearest(file, there)}",
            where="file",
            param="file",
        )
    return str(folder / file)


async def reload_all(server: Server) -> None:
    """Reload every pipeline and log what came of it, for whoever has only a signal to send."""
    try:
        told = await reload(server)
    except MotetError as error:
        logger.error("nothing was reloaded:\n%s", error)
    except Exception as error:
        logger.exception("nothing was reloaded", exc_info=error)
    else:
        logger.info("reloaded: %s", ", ".join(f"{name}: {text}" for name, text in told.items()))
