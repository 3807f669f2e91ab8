"""What the scenes of realtime sessions have in common: pressed buttons, what was said and heard."""

from __future__ import annotations

import base64
from typing import Any

from talk import Talk

from motet.components.frames import (
    Commit,
    SpeechStarted,
    SpeechStopped,
    Transcript,
)

Event = dict[str, Any]


def said(talk: Talk) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in talk.prompt()]


def spoken_item(talk: Talk) -> str:
    return talk.last("response.output_item.added")["item"]["id"]


def audio_of(talk: Talk) -> bytes:
    deltas = [e["delta"] for e in talk.events if e["type"] == "response.output_audio.delta"]
    return b"".join(base64.b64decode(delta) for delta in deltas)


def manual(**options: Any) -> Talk:
    talk = Talk(**options)
    talk.update(audio={"input": {"turn_detection": None}})
    return talk


def push_to_talk(talk: Talk, text: str) -> None:
    """Audio, commit, response.create; the transcript comes later."""
    number = sum(isinstance(f, Commit) for f in talk.fed) + 1
    talk.append(500)
    talk.say("input_audio_buffer.commit")
    talk.say("response.create")
    talk.hear(
        0,
        "turn",
        SpeechStarted(number, 0, detected=False),
        SpeechStopped(number, 500, detected=False),
    )
    talk.hear(0, "asr", Transcript(text, True, number))
