"""Barge-in: what was heard is what is remembered, and a noise doesn't silence the assistant."""

from __future__ import annotations

import numpy as np
import pytest
from scenes import said, spoken_item
from talk import Talk

from motet.components.frames import (
    Audio,
    End,
    Fault,
    SpeechStarted,
    SpeechStopped,
    Spoken,
    TextDelta,
)


@pytest.mark.parametrize(
    ("heard_s", "text"),
    [
        (0.0, ""),
        (0.55, "One"),
        (1.0, "One two."),
        (1.55, "One two. Three"),
        (9, "One two. Three four."),
    ],
)
def test_history_holds_what_was_heard_when_the_user_barged_in(heard_s: float, text: str) -> None:
    talk = Talk()
    talk.utter("Count.")
    talk.reply("One two. ", "Three four.")
    talk.hear(1, "llm", TextDelta(" Five six."))
    talk.pass_(heard_s)
    talk.utter("Stop.")
    assistant = [text for role, text in said(talk) if role == "assistant"]
    assert assistant == ([text] if text else [])


def test_nothing_of_a_reply_follows_once_somebody_speaks() -> None:
    talk = Talk()
    talk.utter("Tell me a story.")
    talk.reply("Once ", "upon ", "a time")
    talk.pass_(2)
    events = talk.hear(0, "turn", SpeechStarted(9, 5000))
    assert talk.types(events) == [
        "input_audio_buffer.speech_started",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
        "rate_limits.updated",
    ]
    assert talk.cancelled == [1]
    late = Audio(np.zeros(100, np.int16), 24_000)
    assert talk.hear(1, "tts", late, Spoken("x", 0, 1)) == []
    assert talk.hear(1, "", End(interrupted=True)) == []


def test_a_reply_that_is_done_but_still_plays_is_cut_too() -> None:
    talk = Talk()
    talk.utter("Count.")
    talk.reply("One two. ", "Three four.")
    talk.finish()
    talk.pass_(1.0)
    talk.utter("Stop.")
    assert said(talk)[1] == ("assistant", "One two.")


def test_without_interruption_the_reply_goes_on_and_the_next_one_waits() -> None:
    talk = Talk()
    talk.update(audio={"input": {"turn_detection": {"interrupt_response": False}}})
    talk.utter("One.")
    talk.reply("First.")
    talk.utter("Two.")
    assert talk.cancelled == []
    assert list(talk.opened) == [1]
    talk.finish(turn=1)
    assert list(talk.opened) == [1, 2]
    assert said(talk)[-1] == ("user", "Two.")


@pytest.mark.parametrize(
    ("audio_end_ms", "told", "text"),
    [(0, 0, ""), (500, 500, "One"), (2000, 2000, "One two. Three four."), (2900, 2000, None)],
)
def test_truncation_cuts_at_the_word_that_was_played(
    audio_end_ms: int, told: int, text: str | None
) -> None:
    talk = Talk()
    talk.utter("Count.")
    talk.reply("One two. ", "Three four.")
    talk.finish()
    fields = {"item_id": spoken_item(talk), "content_index": 0, "audio_end_ms": audio_end_ms}
    (event,) = talk.say("conversation.item.truncate", **fields)
    assert event["type"] == "conversation.item.truncated"
    assert event["audio_end_ms"] == told
    retrieved = talk.say("conversation.item.retrieve", item_id=fields["item_id"])[0]["item"]
    expected = "One two. Three four." if text is None else text
    assert retrieved["content"][0]["transcript"] == expected
    talk.utter("Go on.")
    assert [t for role, t in said(talk) if role == "assistant"] == ([expected] if expected else [])


def test_what_the_client_played_counts_more_than_our_clock() -> None:
    talk = Talk()
    talk.utter("Count.")
    talk.reply("One two. ", "Three four.")
    talk.pass_(0.4)
    talk.start_speech()
    fields = {"item_id": spoken_item(talk), "content_index": 0, "audio_end_ms": 1000}
    talk.say("conversation.item.truncate", **fields)
    talk.stop_speech(2, "Stop.")
    assert ("assistant", "One two.") in said(talk)


@pytest.mark.parametrize("kind", ["user", "text", "unknown"])
def test_only_spoken_replies_can_be_truncated(kind: str) -> None:
    talk = Talk()
    talk.utter("Hi.")
    item = talk.last("conversation.item.added")["item"]["id"]
    if kind == "text":
        talk.finish()
        talk.say("response.create", response={"output_modalities": ["text"]})
        talk.hear(2, "llm", TextDelta("Hello", spoken=False))
        item = spoken_item(talk)
    fields = {"item_id": "item_x" if kind == "unknown" else item, "audio_end_ms": 1}
    (event,) = talk.say("conversation.item.truncate", content_index=0, **fields)
    known = event["error"]["message"] == "Only model output audio messages can be truncated"
    assert known is (kind != "unknown")


@pytest.mark.parametrize("how", ["empty", "punctuation", "dropped", "failed"])
@pytest.mark.parametrize("heard_s", [0.0, 1.0])
def test_a_reply_cut_off_by_a_noise_is_taken_up_again(how: str, heard_s: float) -> None:
    talk = Talk()
    talk.utter("Tell me.")
    talk.reply("One two. ", "Three four.")
    talk.pass_(heard_s)
    cough = talk.start_speech()
    if how == "dropped":
        talk.hear(0, "turn", SpeechStopped(cough, 700, dropped=True))
    elif how == "failed":
        talk.stop_speech(cough, None)
        talk.hear(0, "asr", Fault("asr", "component_failed", "oh", utterance=cough))
    else:
        talk.stop_speech(cough, "" if how == "empty" else "...")
    assert list(talk.opened) == [1, 2]
    kept = [("user", "Tell me.")] + ([("assistant", "One two.")] if heard_s else [])
    assert [line for line in said(talk) if line[0] != "system"][: len(kept)] == kept
    note = talk.opened[2].messages[0].text
    assert ("noise" in note) is bool(heard_s)


def test_a_noise_in_silence_starts_nothing() -> None:
    talk = Talk()
    talk.utter("")
    talk.pass_(5)
    assert "response.created" not in talk.types()


def test_a_client_that_takes_back_its_audio_gets_no_second_reply() -> None:
    talk = Talk()
    talk.utter("Tell me.")
    talk.reply("One two. ")
    number = talk.start_speech()
    talk.say("input_audio_buffer.clear")
    talk.hear(0, "turn", SpeechStopped(number, 700, dropped=True))
    assert list(talk.opened) == [1]
