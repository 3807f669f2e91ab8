"""What the engines of a pipeline can, as far as they run in this process, and what clients ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..components.errors import BadInput
from ..components.frames import Audio, TextDelta, Transcript, Voice
from ..pipelines.pipeline import Pipeline
from ..pipelines.version import Version

OPENAI_VOICES = frozenset(
    (
        *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx"),
        *("sage", "shimmer", "verse"),
    )
)
"""What clients of OpenAI's send, some without being asked."""
DEFAULT = "default"


class Unspoken(BadInput):
    """The voice makes no sound of a text, as one that speaks English makes none of Chinese."""

    def __init__(self, pipeline: str, param: str) -> None:
        super().__init__(
            f"the voice of {pipeline!r} makes no sound of this text; possible: words in a language"
            " that it speaks",
            param=param,
        )


def wished(name: str | None, speed: float) -> Voice:
    """The voice that a client names: one that the engine has, or its default one for "default",
    none, and the names of OpenAI's that it hasn't. The engine refuses all others.
    """
    wanted = None if name == DEFAULT else name
    return Voice(wanted, speed, exact=wanted is not None and wanted not in OPENAI_VOICES)


def voices_of(pipeline: Pipeline | Version) -> list[str]:
    """The voices of the component that speaks, the default one first; empty where unknown."""
    return _told(pipeline, pipeline.graph.entries(TextDelta), "voices")


def languages_of(pipeline: Pipeline | Version) -> list[str]:
    """The languages, by ISO 639-1, of the component that transcribes; empty where unknown."""
    nodes = pipeline.graph.nodes.values()
    return _told(pipeline, (one.name for one in nodes if Transcript in one.emits), "languages")


def spoken_languages_of(pipeline: Pipeline | Version) -> list[str]:
    """The languages of the component that speaks, as "en-US" or "de"; empty where unknown."""
    return _told(pipeline, pipeline.graph.entries(TextDelta), "languages")


def rate_of(pipeline: Pipeline | Version) -> int | None:
    """The sample rate in which the pipeline speaks; None where unknown."""
    nodes = pipeline.graph.nodes.values()
    return _first(pipeline, (one.name for one in nodes if Audio in one.emits), "rate_hz")


def _told(pipeline: Pipeline | Version, nodes: Iterable[str], what: str) -> list[str]:
    """What the first of the nodes that can tell it says."""
    tell = _first(pipeline, nodes, what)
    return list(tell()) if tell is not None else []


def _first(pipeline: Pipeline | Version, nodes: Iterable[str], what: str) -> Any:
    """That attribute of the first of the nodes that has it, None where there is none."""
    component: Any = getattr(pipeline.runtime, "component", None)
    if component is None:
        return None
    found = (getattr(component(node), what, None) for node in nodes)
    return next((one for one in found if one is not None), None)
