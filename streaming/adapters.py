"""Adapters (LoRA) by the names that clients send as their model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..components.errors import BadInput
from ..pipelines.pipeline import Pipeline
from .needs import CHAT
from .server import Server


def adapters_of(pipeline: Pipeline) -> tuple[str, ...]:
    """The adapters that a pipeline's nodes name in their options."""
    found: dict[str, None] = {}
    for node in pipeline.graph.nodes.values():
        named = node.spec.options.get("adapters")
        if isinstance(named, Mapping):
            found |= dict.fromkeys(map(str, cast("Mapping[str, Any]", named)))
    return tuple(found)


def chosen(server: Server, model: str | None, adapter: str | None) -> tuple[Pipeline, str | None]:
    """The pipeline and the adapter that a chat asks for.

    `model` is a pipeline's name, PIPELINE:ADAPTER, or an adapter's name alone; `adapter` is what
    the request says apart from it.

    Raises:
        BadInput: the request names two adapters, or no pipeline takes prompts.
    """
    pipeline, named = _named(server, model or "")
    if named is not None and adapter not in (None, named):
        raise BadInput(
            f"the model names the adapter {named!r}, the request {adapter!r}; give one",
            where="adapter",
            param="adapter",
        )
    return pipeline, named or adapter


def _named(server: Server, model: str) -> tuple[Pipeline, str | None]:
    name, colon, adapter = model.partition(":")
    if model not in server.pipelines:
        if colon and name in server.pipelines:
            return server.find(name, CHAT), adapter
        for pipeline in server.pipelines.values():
            if model in adapters_of(pipeline):
                return pipeline, model
    return server.find(model, CHAT), None
