"""A voice pipeline for tests: the graph that all of them have, around what a test puts in."""

from __future__ import annotations

from typing import Any


def voice_spec(name: str = "voice", **nodes: str | dict[str, Any]) -> dict[str, Any]:
    """Its file. What isn't named in `nodes` needs no model, and there is a `vad` only if named."""
    parts = {
        "turn": "turn/silence",
        "asr": "fakes:Hear",
        "llm": "fakes:Answer",
        "tts": "fakes:Say",
        **nodes,
    }
    ears = ["input", *(["vad"] if "vad" in nodes else []), "turn", "asr", "conversation"]
    return {
        "name": name,
        "nodes": {
            node: {"use": part} if isinstance(part, str) else part for node, part in parts.items()
        },
        "edges": [
            " -> ".join(ears),
            {"turn -> conversation": ["SpeechStarted", "SpeechPaused", "SpeechStopped"]},
            "conversation -> llm -> tts -> conversation",
            "llm -> conversation",
        ],
        "conversation": {},
    }
