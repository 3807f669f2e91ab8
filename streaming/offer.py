"""What a pipeline offers to realtime clients, read off its graph."""

from __future__ import annotations

from ..pipelines.pipeline import Pipeline
from ..pipelines.spec import ConversationSpec
from ..pipelines.version import Version
from .abilities import voices_of
from .needs import CONVERSATION
from .realtime.settings import Offer
from .server import Server


def pipeline_for(server: Server, model: str | None) -> Pipeline:
    """The pipeline to converse with: the one that `model` names, else the best that can.

    Raises:
        BadInput: none has a conversation, or the one that is named.
    """
    return server.find(model, CONVERSATION)


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
