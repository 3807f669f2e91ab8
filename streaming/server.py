"""The server's state, which every door shares: settings, pipelines, keys, metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from fastapi import Request

from ..components.errors import BadInput, Flaw, MotetError, SpecError
from ..pipelines.graph import Graph
from ..pipelines.pipeline import Pipeline
from ..pipelines.runtimes import runtime_of
from ..pipelines.runtimes.base import Runtime
from .access.auth import (
    PRIORITY_HEADER,
    KeyRing,
    NotAdmin,
    Principal,
    Unauthorized,
    bearer,
    load_keys,
)
from .access.ephemeral import EphemeralKeys, ephemeral_keys
from .access.origin import origin_allowed
from .access.ratelimit import RateLimiter
from .needs import Need
from .operate.metrics import Metrics
from .operate.upkeep import Upkeep
from .settings import Settings

_NEAR = 0.75
"""How alike a name must be to one of ours to be a slip of it; "chatt" and "chat" are by 0.89."""


class Forbidden(MotetError):
    """A web page of another origin asked."""

    code = "origin_not_allowed"


@dataclass
class Server:
    """What a running server is made of. Made once; the doors get it from `app.state.server`.

    `failure` is why it couldn't start. `on_change` are called when other versions of pipelines are
    served than before.
    """

    settings: Settings
    pipelines: dict[str, Pipeline]
    keys: KeyRing
    ephemeral: EphemeralKeys
    metrics: Metrics
    rates: RateLimiter = field(default_factory=RateLimiter)
    upkeep: Upkeep = field(default_factory=Upkeep)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    failure: MotetError | None = None
    on_change: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    def __post_init__(self) -> None:
        self.metrics.registry.register(self.upkeep)

    @classmethod
    def make(cls, graphs: Sequence[Graph], settings: Settings) -> Server:
        """A server for these graphs, on the runtime of the settings, not yet loaded.

        Raises:
            SpecError: the keys are wrong, or two graphs have one name.
        """
        check_names(graphs)
        pipelines = {graph.name: Pipeline(graph, runtime_for(graph, settings)) for graph in graphs}
        keys, ephemeral = load_keys(settings), ephemeral_keys(settings)
        return cls(settings, pipelines, keys, ephemeral, Metrics(pipelines))

    @property
    def open_sessions(self) -> int:
        """Sessions of all pipelines, requests among them."""
        return sum(pipeline.versions.sessions for pipeline in self.pipelines.values())

    def changed(self) -> None:
        """Tell the doors that other versions are served now."""
        for told in self.on_change:
            told()

    def drain(self) -> None:
        """Take no more sessions; those that run go on."""
        for pipeline in self.pipelines.values():
            pipeline.draining = True

    @property
    def ready(self) -> bool:
        """Whether every pipeline can take work, and every task of the server does its own."""
        ready = all(pipeline.ready for pipeline in self.pipelines.values())
        return ready and not self.stopping.is_set() and not self.upkeep.down

    def authenticate(self, headers: Mapping[str, str], key: str | None = None) -> Principal:
        """Who asks, by the headers, or by a key that came another way.

        Raises:
            Unauthorized: a key is needed and this is none.
            Forbidden: a page of a foreign origin asks.
            RateLimited: the key has made its requests for now.
            BadInput: the priority that it names isn't one that the key may have.
        """
        if not origin_allowed(headers, self.settings):
            raise Forbidden(
                f"origin {headers.get('origin')!r} at host {headers.get('host')!r} is not allowed;"
                " see --allow-origins",
                where="origin",
            )
        return self.admit(headers, key)

    def admit(self, headers: Mapping[str, str], key: str | None = None) -> Principal:
        """Who asks, wherever from: the key, its rate, and the priority that the request names.

        Raises:
            Unauthorized: a key is needed and this is none.
            RateLimited: the key has made its requests for now.
            BadInput: the priority isn't one that the key may have.
        """
        principal = self.keys.check(key or bearer(headers))
        self.rates.take(principal.name, principal.requests_per_minute, time.monotonic())
        return principal.asking(headers.get(PRIORITY_HEADER))

    def find(self, model: str | None, need: Need | None = None) -> Pipeline:
        """The pipeline that a client's `model` names. A name that is none of ours, since clients
        send those that they know ("gpt-realtime", "whisper-1"), is the nearest that does what is
        needed, else the one that suits it best, the first of several.

        Raises:
            BadInput: nothing here does it, or the one that is named doesn't.
        """
        served = self.pipelines
        fitting = {name: one for name, one in served.items() if not need or meets(one, need)}
        if need and not fitting:
            raise BadInput(lacking(need), where="model", param="model")
        if need and model in served and model not in fitting:
            raise BadInput(
                f"{model!r} isn't a pipeline that {need.does}; possible: {', '.join(fitting)}",
                where="model",
                param="model",
            )
        if model in fitting:
            return fitting[model]
        close = get_close_matches(model or "", list(fitting), n=1, cutoff=_NEAR)
        if close or not need:
            return fitting[(close or list(fitting))[0]]
        return min(fitting.values(), key=lambda one: unsuited(one, need))


def check_names(graphs: Sequence[Graph]) -> None:
    """Refuse pipelines of one name, of which a client could reach only one.

    Raises:
        SpecError: with every name that is taken twice, and the files that take it.
    """
    files: dict[str, list[str]] = {}
    for graph in graphs:
        files.setdefault(graph.name, []).append(graph.file or "one made in Python")
    flaws = [
        Flaw(
            "name",
            f"{name!r} is the name of {len(found)} pipelines ({', '.join(found)}); serve one of"
            " them, or give each a name of its own",
        )
        for name, found in files.items()
        if len(found) > 1
    ]
    if flaws:
        raise SpecError(flaws)


def takes(pipeline: Pipeline, frames: Sequence[str]) -> bool:
    """Whether some node of the pipeline, first on its way in, accepts one of these frames."""
    from ..pipelines.graph import FRAME_TYPES

    return any(pipeline.graph.entries(FRAME_TYPES[name]) for name in frames)


def runtime_for(graph: Graph, settings: Settings) -> Runtime:
    """The runtime that the settings choose for a graph."""
    return runtime_of(
        settings.runtime, graph, targets=settings.targets, tls_dir=settings.hop_tls_dir
    )


def makes(pipeline: Pipeline, frames: Sequence[str]) -> bool:
    """Whether some node of the pipeline emits one of these frames."""
    nodes = pipeline.graph.nodes.values()
    return any(kind.__name__ in frames for node in nodes for kind in node.emits)


def meets(pipeline: Pipeline, need: Need) -> bool:
    """Whether a pipeline does what is needed."""
    return (
        (not need.accepts or takes(pipeline, need.accepts))
        and (not need.emits or makes(pipeline, need.emits))
        and not makes(pipeline, need.without)
        and (not need.conversation or pipeline.graph.spec.conversation is not None)
    )


def unsuited(pipeline: Pipeline, need: Need) -> bool:
    """Whether a pipeline that does what is needed is the worse choice for it."""
    if need.conversation:
        return not (takes(pipeline, ["Audio"]) and makes(pipeline, ["Audio"]))
    return pipeline.graph.spec.conversation is not None


def lacking(need: Need) -> str:
    """What is said where nothing does what is needed."""
    return f"nothing here {need.does}; serve `{need.ready}` too"


def server_of(request: Request) -> Server:
    """FastAPI dependency: the server that a request came to."""
    return request.app.state.server


async def principal_of(request: Request) -> Principal:
    """FastAPI dependency: who asks. A coroutine, since other functions are sent to a thread.

    Raises:
        Unauthorized: a key is needed (401).
        Forbidden: a foreign page asks (403).
    """
    return server_of(request).authenticate(request.headers)


async def admin_of(request: Request) -> Principal:
    """FastAPI dependency: who asks, if they may change what is served.

    Raises:
        Unauthorized: a key is needed (401).
        Forbidden: a foreign page asks (403).
        NotAdmin: the key isn't an admin's (403).
    """
    principal = await principal_of(request)
    if not principal.admin:
        raise NotAdmin(
            "this key may not change what is served; `motet keys add NAME --admin` makes one that"
            " may, and so does MOTET_ADMIN_KEYS",
            where="key",
        )
    return principal


__all__ = [
    "Forbidden",
    "Principal",
    "Server",
    "Unauthorized",
    "admin_of",
    "principal_of",
    "server_of",
]
