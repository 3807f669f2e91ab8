"""Sequences that real clients completed a turn with: ours have the same shape and order."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from talk import Talk, check_event, pcm

from motet.components.frames import Audio, Completed, End, Fault, ToolCall, Usage

VECTORS = Path(__file__).parent / "vectors"
NAMES = ["normal", "barge_in", "client_cancel", "function_call", "errors"]

Event = dict[str, Any]


def recorded(name: str) -> list[Event]:
    lines = (VECTORS / f"{name}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def begin() -> Talk:
    talk = Talk()
    talk.update(output_modalities=["audio"])
    talk.append(3000)
    talk.utter("Hello there.")
    return talk


def normal() -> Talk:
    talk = begin()
    talk.reply("Hi ", "there.")
    talk.finish()
    return talk


def barge_in() -> Talk:
    talk = begin()
    talk.reply("Hi ", "there.")
    talk.hear(1, "llm", Completed(usage=Usage(20, 10)))
    talk.now_s = 0.5
    talk.start_speech(2000)
    item = talk.last("response.output_item.added")["item"]["id"]
    talk.say("conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=240)
    return talk


def client_cancel() -> Talk:
    talk = begin()
    talk.reply("Hi ", "there.")
    talk.hear(1, "llm", Completed(usage=Usage(20, 10)))
    talk.say("response.cancel")
    return talk


def function_call() -> Talk:
    talk = begin()
    pieces = ['{"city"', ':"Oslo"}']
    for place, piece in enumerate(pieces):
        call = ToolCall("call_1", "get_weather", piece, done=place == len(pieces) - 1)
        talk.hear(1, "llm", call)
    talk.finish(reason="tool_calls")
    talk.events.pop()  # the recording ends before the rate limits
    return talk


def errors() -> Talk:
    talk = Talk()
    talk.update()
    talk.say("response.cancel", event_id="evt_c1")
    talk.say("response.create", response={"conversation": "auto"})
    talk.say("response.create", event_id="evt_c2")
    talk.say("input_audio_buffer.commit", event_id="evt_c3")
    talk.say("conversation.item.retrieve", item_id="item_none", event_id="evt_c4")
    item = {
        "id": "item_1",
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "Hi"}],
    }
    talk.say("conversation.item.create", item=item)
    talk.say("conversation.item.create", item=item, event_id="evt_c5")
    talk.reply("It takes a while.", ms_each=3700)
    spoken = talk.last("response.output_item.added")["item"]["id"]
    talk.say(
        "conversation.item.truncate",
        item_id=spoken,
        content_index=0,
        audio_end_ms=9000,
        event_id="evt_c6",
    )
    talk.say("session.updat")
    talk.hear(1, "llm", Fault("llm", "component_failed", "The LLM stage failed."), End())
    return talk


SCENES = {
    "normal": normal,
    "barge_in": barge_in,
    "client_cancel": client_cancel,
    "function_call": function_call,
}


def folded(events: list[Event]) -> list[str]:
    """Types in order; audio and its transcript, which interleave, as one."""
    kinds = [e["type"].replace("audio_transcript.delta", "audio.delta") for e in events]
    return [kind for kind, _ in itertools.groupby(kinds)]


def shape(value: Any) -> set[str]:
    """The paths of all keys."""
    if isinstance(value, list):
        return {path for one in value for path in shape(one)}
    if not isinstance(value, dict):
        return set()
    return set(value) | {f"{k}.{path}" for k, v in value.items() for path in shape(v)}


@pytest.mark.parametrize("name", NAMES)
def test_the_checker_accepts_what_clients_accepted(name: str) -> None:
    for event in recorded(name):
        check_event(event)


@pytest.mark.parametrize("name", SCENES)
def test_the_same_scene_gives_the_same_order(name: str) -> None:
    assert folded(SCENES[name]().events) == folded(recorded(name))


@pytest.mark.parametrize("name", SCENES)
def test_no_field_is_missing_that_the_recording_has(name: str) -> None:
    ours: dict[str, set[str]] = {}
    for event in SCENES[name]().events:
        ours.setdefault(event["type"], set()).update(shape(event))
    for event in recorded(name):
        missing = shape(event) - ours[event["type"]]
        assert not missing, (event["type"], missing)


def test_errors_carry_the_codes_and_the_clients_event_ids() -> None:
    def told(events: list[Event]) -> list[tuple[str, str | None, str | None]]:
        found = [e["error"] for e in events if e["type"] == "error"]
        return [(e["code"], e["event_id"], e["param"]) for e in found]

    assert told(errors().events) == told(recorded("errors"))


def test_a_truncation_beyond_the_audio_says_what_clients_match_on() -> None:
    message = next(
        e["error"]["message"]
        for e in errors().events
        if e["type"] == "error" and e["error"]["event_id"] == "evt_c6"
    )
    assert message == "Audio content of 3700ms is already shorter than 9000ms"


def test_a_failed_generation_is_a_failed_response_not_an_error() -> None:
    done = errors().last("response.done")["response"]
    assert done["status"] == "failed"
    assert done["status_details"]["error"]["code"] == "component_failed"


def test_the_tool_round_trip_reaches_the_next_prompt() -> None:
    talk = function_call()
    output = {"type": "function_call_output", "call_id": "call_1", "output": "12 degrees"}
    added = talk.say("conversation.item.create", item=output)
    assert talk.types(added) == ["conversation.item.added", "conversation.item.done"]
    talk.say("response.create")
    roles = [(m.role, m.text, m.call_id) for m in talk.prompt()]
    assert roles == [
        ("user", "Hello there.", None),
        ("assistant", "", None),
        ("tool", "12 degrees", "call_1"),
    ]
    assert talk.prompt()[1].calls[0].arguments == '{"city":"Oslo"}'


def test_samples_stay_whole_in_every_delta() -> None:
    import base64

    import numpy as np

    talk = begin()
    for size in (1, 7, 333, 24_001):
        talk.hear(1, "tts", Audio(np.zeros(size, np.int16), 22_050))
    talk.hear(1, "llm", Completed(usage=Usage()))
    talk.hear(1, "", End())
    deltas = [
        base64.b64decode(e["delta"])
        for e in talk.events
        if e["type"] == "response.output_audio.delta"
    ]
    assert all(len(delta) % 2 == 0 and delta for delta in deltas)
    wanted = (1 + 7 + 333 + 24_001) * 24_000 / 22_050
    assert abs(sum(len(delta) for delta in deltas) / 2 - wanted) <= 1
    assert len(pcm(1)) > 0
