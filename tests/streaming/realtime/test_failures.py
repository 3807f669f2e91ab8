"""Failures end the turn, never the session, and never in silence."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenes import Event, said
from talk import Talk

from motet.components.frames import (
    End,
    Fault,
)
from motet.pipelines.spec import ConversationSpec


def test_a_model_that_never_answers_is_a_failed_response() -> None:
    talk = Talk(ConversationSpec(first_token_timeout_s=4))
    talk.utter("Hello?")
    assert talk.pass_(3.9) == []
    events = talk.pass_(0.2)
    assert talk.types(events) == ["response.done", "rate_limits.updated"]
    assert events[0]["response"]["status_details"]["error"]["code"] == "deadline_exceeded"
    assert talk.cancelled == [1]
    talk.utter("Still there?")
    assert list(talk.opened) == [1, 2]


def test_a_reply_that_breaks_off_in_silence_fails_too() -> None:
    talk = Talk(ConversationSpec(first_token_timeout_s=1))
    talk.utter("Hello?")
    talk.reply("Well, ")
    talk.pass_(10)
    assert talk.last("response.done")["response"]["status"] == "failed"


@pytest.mark.parametrize("node", ["llm", "tts"])
@pytest.mark.parametrize("spoken", [True, False])
def test_a_broken_component_closes_every_open_part(node: str, spoken: bool) -> None:
    talk = Talk()
    talk.utter("Hello?")
    if spoken:
        talk.reply("Well, ")
    events = talk.hear(1, node, Fault(node, "component_failed", "out of memory"), End())
    assert events[-2]["response"]["status_details"] == {
        "type": "failed",
        "error": {"type": "server_error", "code": "component_failed", "message": "out of memory"},
    }
    assert ("response.output_item.done" in talk.types(events)) is spoken
    talk.utter("Again?")
    assert list(talk.opened) == [1, 2]


def test_a_broken_recogniser_fails_each_utterance_it_had() -> None:
    talk = Talk()
    first = talk.start_speech()
    talk.stop_speech(first, None)
    talk.start_speech()
    events = talk.hear(0, "asr", Fault("asr", "component_failed", "gone"))
    assert talk.types(events) == [
        "conversation.item.input_audio_transcription.failed",
        "input_audio_buffer.speech_stopped",
    ]
    talk.utter("Hello again.")
    assert said(talk)[-1] == ("user", "Hello again.")


def test_a_session_that_can_not_listen_any_more_says_so_and_closes() -> None:
    talk = Talk()
    talk.hear(0, "", End())
    assert talk.events[-1]["error"]["type"] == "server_error"
    assert talk.closed is not None
    assert talk.closed.code == 1011


@pytest.mark.parametrize(
    ("reason", "told"), [("length", "max_output_tokens"), ("content_filter",) * 2]
)
def test_an_answer_that_ran_out_is_incomplete(reason: str, told: str) -> None:
    talk = Talk()
    talk.utter("Go on for ever.")
    talk.reply("And so ")
    talk.finish(reason=reason)
    response = talk.last("response.done")["response"]
    assert response["status"] == "incomplete"
    assert response["status_details"]["reason"] == told


def test_sessions_end_by_age_and_by_idleness() -> None:
    old = Talk(max_age_s=100)
    for _ in range(5):
        old.append(20)
        old.pass_(30)
    assert old.closed is not None
    assert (old.closed.code, old.events[-1]["error"]["code"]) == (1001, "session_expired")
    idle = Talk(idle_s=50)
    idle.pass_(60)
    assert idle.closed is not None
    assert idle.closed.code == 1000


def test_a_clock_that_has_nothing_more_to_do_does_not_ring_on_and_on() -> None:
    over = Talk(idle_s=50)
    over.pass_(60)
    assert over.protocol.next_deadline() == math.inf
    busy = Talk(ConversationSpec(first_token_timeout_s=30), idle_s=10)
    busy.utter("Tell me everything.")
    busy.say("input_audio_buffer.clear")
    for _ in range(10):
        busy.reply("And then ", ms_each=20)
        busy.pass_(2)
        assert busy.protocol.next_deadline() > busy.now_s
    busy.finish()
    busy.pass_(0)
    assert busy.closed is not None, "nobody has said anything for 20 s"


def test_an_item_whose_audio_can_not_be_read_is_not_there() -> None:
    talk = Talk()
    content = [{"type": "input_audio", "audio": "not base64"}]
    events = talk.say(
        "conversation.item.create",
        item={"id": "one", "type": "message", "role": "user", "content": content},
    )
    assert talk.types(events) == ["error"]
    (error,) = talk.say("conversation.item.retrieve", item_id="one")
    assert error["error"]["code"] == "item_retrieve_invalid_item_id"


def test_a_picture_that_can_not_be_read_is_not_called_audio() -> None:
    content = [{"type": "input_image", "image_url": "data:image/png;base64,=="}]
    item = {"type": "message", "role": "user", "content": content}
    (error,) = Talk().say("conversation.item.create", item=item)
    assert error["error"]["param"] == "item.content.0.image_url"
    assert "audio" not in error["error"]["message"]


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = [
    "session", "audio", "item", "item_id", "previous_item_id", "response", "response_id",
    "content_index", "audio_end_ms", "event_id",
]  # fmt: skip


@given(
    st.sampled_from(
        ["session.update", "input_audio_buffer.append", "conversation.item.create",
         "conversation.item.truncate", "response.create", "response.cancel", "x"]
    ),
    st.dictionaries(st.sampled_from(FIELDS), JUNK, max_size=4),
)  # fmt: skip
def test_no_event_however_malformed_does_more_than_an_error(kind: str, fields: Event) -> None:
    talk = Talk()
    talk.say(kind, **fields)
    assert talk.closed is None
    talk.utter("Hello.")


@pytest.mark.parametrize("message", ["", "{", "[]", "null", "1", '"x"', "[" * 5000, b"\xff\xfe"])
def test_what_is_not_an_event_is_answered_with_an_error(message: str | bytes) -> None:
    talk = Talk()
    (event,) = talk.do(talk.protocol.receive(message, 0.0))
    assert event["error"]["code"] == "unknown_or_invalid_event"
