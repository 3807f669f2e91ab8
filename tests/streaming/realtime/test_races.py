"""Speech and transcripts race each other: scenes that users of realtime servers reported."""

from __future__ import annotations

import pytest
from scenes import manual, push_to_talk, said
from talk import Talk

from motet.components.frames import (
    SpeechStarted,
    SpeechStopped,
    TextDelta,
    Transcript,
)


@pytest.mark.parametrize("early", [True, False])
def test_a_short_word_is_answered_whichever_way_comes_first(early: bool) -> None:
    talk = Talk()
    number = talk.start_speech()
    word, end = Transcript("tak", True, number), SpeechStopped(number, 350)
    if early:
        talk.hear(0, "asr", word)
        talk.hear(0, "turn", end)
    else:
        talk.hear(0, "turn", end)
        talk.pass_(1.5)
        talk.hear(0, "asr", word)
    assert said(talk) == [("user", "tak")]


def test_several_utterances_get_one_answer() -> None:
    talk = Talk()
    first = talk.start_speech()
    talk.stop_speech(first, None)
    second = talk.start_speech()
    talk.hear(0, "asr", Transcript("My number is", True, first))
    assert talk.opened == {}
    talk.stop_speech(second, "four one five.")
    assert said(talk) == [("user", "My number is four one five.")]
    assert len(talk.opened) == 1


def test_speech_that_goes_on_before_the_reply_is_heard_joins_it() -> None:
    talk = Talk()
    talk.utter("I would like")
    talk.hear(1, "llm", TextDelta("Yes"))
    talk.utter("a table for two.")
    assert talk.cancelled == [1]
    assert said(talk) == [("user", "I would like a table for two.")]


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 2.0])
def test_a_client_that_asks_right_after_speech_gets_one_response_and_no_error(
    delay_s: float,
) -> None:
    talk = Talk()
    number = talk.start_speech()
    talk.stop_speech(number, None)
    talk.pass_(delay_s)
    created = talk.say("response.create", response={"metadata": {"client_event_id": "r1"}})
    assert talk.types(created) == ["response.created"]
    assert talk.opened == {}, "there is nothing to answer yet"
    talk.hear(0, "asr", Transcript("Hello.", True, number))
    assert said(talk) == [("user", "Hello.")]
    talk.reply("Hi.")
    talk.finish()
    talk.pass_(5)
    assert talk.types().count("response.created") == 1
    assert talk.last("response.done")["response"]["metadata"] == {"client_event_id": "r1"}


def test_push_to_talk_answers_what_was_said_not_what_was_there_before() -> None:
    talk = manual()
    push_to_talk(talk, "Turn left.")
    assert said(talk) == [("user", "Turn left.")]
    talk.reply("Left.")
    talk.finish()
    push_to_talk(talk, "And right.")
    assert said(talk)[-2:] == [("assistant", "Left."), ("user", "And right.")]
    kinds = talk.types()
    assert "input_audio_buffer.speech_started" not in kinds
    assert kinds.count("input_audio_buffer.committed") == 2


def test_a_commit_alone_never_creates_a_response() -> None:
    talk = manual()
    talk.append(500)
    events = talk.say("input_audio_buffer.commit")
    assert talk.types(events) == [
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]
    stopped = SpeechStopped(1, 500, detected=False)
    talk.hear(0, "turn", SpeechStarted(1, 0, detected=False), stopped)
    talk.hear(0, "asr", Transcript("Hello.", True, 1))
    assert talk.opened == {}
    assert talk.events[-1]["transcript"] == "Hello."


@pytest.mark.parametrize(("sent_ms", "error"), [(99, True), (100, False)])
def test_too_little_audio_to_commit(sent_ms: float, error: bool) -> None:
    talk = manual()
    talk.append(sent_ms)
    first = talk.say("input_audio_buffer.commit")[0]
    assert (first["type"] == "error") is error
    if error:
        assert first["error"]["code"] == "input_audio_buffer_commit_empty"


def test_a_commit_that_no_utterance_answers_is_given_up_and_said_so() -> None:
    talk = manual()
    talk.append(500)
    talk.say("input_audio_buffer.commit")
    talk.say("response.create")
    events = talk.pass_(60)
    assert "conversation.item.input_audio_transcription.failed" in talk.types(events)
    assert 1 in talk.opened
    assert talk.last("response.done")["response"]["status"] == "failed"


def test_a_client_may_end_the_detectors_utterance_itself() -> None:
    talk = Talk()
    number = talk.start_speech()
    talk.append(600)
    kinds = talk.types(talk.say("input_audio_buffer.commit"))
    assert kinds[:2] == ["input_audio_buffer.speech_stopped", "input_audio_buffer.committed"]
    assert talk.types(talk.stop_speech(number, "Yes."))[-1].endswith("transcription.completed")
