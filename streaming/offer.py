"""What a pipeline offers to realtime clients, read off its graph."""

from __future__ import annotations

from ..components.errors import BadInput
from ..pipelines.pipeline import Pipeline
from ..pipelines.spec import ConversationSpec
from ..pipelines.version import Version
from .abilities import voices_of
from .realtime.settings import Offer
from .server import Server


def pipeline_for(server: Server, model: str | None) -> Pipeline:
    """The pipeline to converse with: the one that `model` names, else the first that can.

    Raises:
        BadInput: none of the server's pipelines has a conversation.
    """
    able = [p for p in server.pipelines.values() if p.graph.spec.conversation is not None]
    if not able:
        known = ", ".join(server.pipelines) or "none"
        raise BadInput(
            f"no pipeline of this server holds conversations; it serves: {known}",
            where="model",
            param="model",
        )
    return next((p for p in able if p.name == model), able[0])


def offer_of(pipeline: Pipeline | Version) -> Offer:
    """The names of the pipeline, its transcriber and its voices, and its conversation's bounds."""
    graph = pipeline.graph
    hearing = [n.spec for n in graph.nodes.values() if n.spec.use.startswith("asr/")]
    transcriber = (hearing[0].model or hearing[0].use) if hearing else "none"
    return Offer(
        pipeline.name,
        transcriber,
        graph.spec.conversation or ConversationSpec(),
        tuple(voices_of(pipeline)),
    )
