"""What a pipeline offers to realtime clients, read off its graph."""

from __future__ import annotations

from ..pipelines.pipeline import Pipeline
from ..pipelines.spec import ConversationSpec
from .realtime.settings import Offer


def offer_of(pipeline: Pipeline) -> Offer:
    """The names of the pipeline and its transcriber, and the bounds of its conversation."""
    graph = pipeline.graph
    hearing = [n.spec for n in graph.nodes.values() if n.spec.use.startswith("asr/")]
    transcriber = (hearing[0].model or hearing[0].use) if hearing else "none"
    return Offer(pipeline.name, transcriber, graph.spec.conversation or ConversationSpec())
