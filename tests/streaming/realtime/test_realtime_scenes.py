"""Scenes that users of realtime servers reported as faults, each as its class."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from talk import Talk, pcm

from motet.components.frames import (
    Audio,
    Commit,
    End,
    Fault,
    SpeechStarted,
    SpeechStopped,
    Spoken,
    TextDelta,
    ToolCall,
    Transcript,
    TurnSettings,
    Voice,
)
from motet.components.g711 import ulaw_decode
from motet.pipelines.spec import ConversationSpec

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


# Speech and transcripts race each other.


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


# Barge-in: what was heard is what is remembered.


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


# A noise isn't a turn, and doesn't silence the assistant for good.


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


# Failures end the turn, never the session, and never in silence.


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


# Responses: what, where, how.


def test_text_in_text_out() -> None:
    talk = Talk()
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    talk.say("conversation.item.create", item=item)
    talk.say("response.create", response={"output_modalities": ["text"]})
    talk.hear(1, "llm", TextDelta("Hel", spoken=False))
    talk.hear(1, "tts", TextDelta("Hel", spoken=False))  # handed on a second time
    talk.hear(1, "llm", TextDelta("lo", spoken=False))
    events = talk.finish()
    assert talk.opened[1].spoken is False
    assert talk.types(events)[:3] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ]
    assert events[0]["text"] == "Hello"
    talk.say("response.create")
    assert said(talk) == [("user", "Hi"), ("assistant", "Hello")]


def test_out_of_band_responses_run_beside_and_leave_no_trace() -> None:
    talk = Talk()
    talk.utter("Hello.")
    wish = {"conversation": "none", "output_modalities": ["text"], "metadata": {"topic": "mood"}}
    ask = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Mood?"}]}
    events = talk.say("response.create", response={**wish, "input": [ask]})
    assert events[0]["response"]["conversation_id"] is None
    talk.say("response.create", response=wish)
    assert [(m.role, m.text) for m in talk.opened[2].messages[1:]] == [("user", "Mood?")]
    assert [(m.role, m.text) for m in talk.opened[3].messages[1:]] == [("user", "Hello.")]
    talk.hear(2, "llm", TextDelta("Good.", spoken=False))
    talk.hear(3, "llm", TextDelta("Fine.", spoken=False))
    talk.start_speech()
    assert talk.cancelled == [1], "speech interrupts the conversation's response alone"
    done = talk.finish(turn=2) + talk.finish(turn=3)
    assert not any(kind.startswith("conversation.item") for kind in talk.types(done))
    ended = [e["response"] for e in done if e["type"] == "response.done"]
    assert [r["metadata"] for r in ended] == [{"topic": "mood"}] * 2


def test_item_references_and_an_empty_input() -> None:
    talk = Talk()
    talk.utter("First.")
    talk.finish()
    item_id = next(iter(e["item"]["id"] for e in talk.events if "item" in e))
    talk.say("response.create", response={"input": [{"type": "item_reference", "id": item_id}]})
    assert said(talk) == [("user", "First.")]
    talk.finish()
    talk.say("response.create", response={"input": []})
    assert said(talk) == []
    missing = {"input": [{"type": "item_reference", "id": "item_x"}]}
    assert (
        talk.say("response.create", response=missing)[0]["error"]["param"] == "response.input.0.id"
    )


def test_a_response_keeps_the_settings_it_began_with() -> None:
    talk = Talk()
    talk.update(audio={"output": {"voice": "alloy"}})
    talk.utter("Hello.")
    talk.update(output_modalities=["text"], max_output_tokens=7)
    talk.reply("Hi.")
    talk.finish()
    response = talk.last("response.done")["response"]
    assert (response["output_modalities"], response["max_output_tokens"]) == (["audio"], "inf")
    talk.utter("And now?")
    assert (talk.opened[2].spoken, talk.opened[2].max_tokens) == (False, 7)


def test_tools_and_limits_reach_the_model() -> None:
    talk = Talk()
    tool = {"type": "function", "name": "look", "parameters": {"type": "object"}}
    talk.update(tools=[tool], tool_choice="required", instructions="", max_output_tokens="inf")
    talk.say("response.create", response={"tool_choice": {"type": "function", "name": "look"}})
    prompt = talk.opened[1]
    assert (prompt.tools[0].name, prompt.tool_choice) == ("look", "look")
    assert prompt.max_tokens == ConversationSpec().max_answer_tokens
    assert prompt.messages == ()
    talk.finish()
    wrong = talk.say("response.create", response={"tool_choice": {"name": "lok"}})
    assert "known: look" in wrong[0]["error"]["message"]


def test_calls_of_models_that_count_from_one_each_time_stay_apart() -> None:
    talk = Talk()
    talk.update(tools=[{"type": "function", "name": "f"}])
    for turn in (1, 2):
        talk.utter("Again.")
        talk.hear(turn, "llm", ToolCall("call_1", "f", "{}", done=True))
        talk.finish(reason="tool_calls")
        call_id = talk.last("response.function_call_arguments.done")["call_id"]
        item = {"type": "function_call_output", "call_id": call_id, "output": str(turn)}
        talk.say("conversation.item.create", item=item)
    talk.say("response.create")
    answers = {m.call_id: m.text for m in talk.prompt() if m.role == "tool"}
    assert list(answers.values()) == ["1", "2"]
    calls = [call.call_id for message in talk.prompt() for call in message.calls]
    assert calls == list(answers)


def test_a_long_prompt_is_refused_when_truncation_is_disabled() -> None:
    talk = Talk(ConversationSpec(max_history_tokens=40))
    talk.update(truncation="disabled")
    talk.utter("word " * 100)
    done = talk.last("response.done")["response"]
    assert done["status_details"]["error"]["code"] == "context_length_exceeded"
    talk.update(truncation="auto")
    talk.utter("Short.")
    assert said(talk) == [("user", ("word " * 100).strip() + " Short.")]


def test_the_user_who_falls_silent_is_spoken_to() -> None:
    talk = Talk()
    talk.update(audio={"input": {"turn_detection": {"idle_timeout_ms": 5000}}})
    talk.append(3000)
    talk.utter("Hello.")
    talk.reply("Hi. ", "How are you?")
    talk.finish()
    assert talk.pass_(6.9) == [], "the reply plays for two seconds first"
    events = talk.pass_(0.2)
    assert talk.types(events) == [
        "input_audio_buffer.timeout_triggered",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
    ]
    assert list(talk.opened) == [1, 2]


# Settings, formats, transcription.


def test_only_what_is_present_changes() -> None:
    talk = Talk()

    def detect(wish: Event) -> Event:
        return talk.update(audio={"input": {"turn_detection": wish}})[0]["session"]

    talk.update(instructions="Sing.")
    detect({"threshold": 0.7})
    session = talk.update(audio={"input": {"turn_detection": {"silence_duration_ms": 900}}})[0][
        "session"
    ]
    assert session["instructions"] == "Sing."
    assert session["audio"]["input"]["turn_detection"]["threshold"] == 0.7
    session = talk.update(audio={"input": {"turn_detection": {"type": "semantic_vad"}}})[0][
        "session"
    ]
    assert session["audio"]["input"]["turn_detection"] == {
        "type": "semantic_vad",
        "eagerness": "auto",
        "create_response": True,
        "interrupt_response": True,
    }
    session = talk.update(
        instructions="", tools=[], audio={"input": {"turn_detection": None, "transcription": None}}
    )[0]["session"]
    assert session["instructions"] == ""
    assert session["audio"]["input"]["turn_detection"] is None
    assert session["audio"]["input"]["transcription"] is None
    fed = [f for f in talk.fed if isinstance(f, TurnSettings)]
    assert [f.mode for f in fed] == ["server", "server", "server", "semantic", "manual"]


FIRST_WORDS = [
    {"model": "gpt-realtime", "tracing": None, "audio": {"output": {"voice": "ash"}}},
    {"tracing": "auto"},
    {"output_modalities": ["audio", "text"], "prompt": None, "reasoning": {"effort": "low"}},
    {
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "noise_reduction": None,
                "transcription": {"model": "gpt-4o-mini-transcribe", "language": None},
                "turn_detection": {"type": "semantic_vad", "eagerness": "medium"},
            },
            "output": {"voice": {"id": "voice_1"}, "speed": None},
        },
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": None,
        "include": None,
        "truncation": {"type": "retention_ratio", "retention_ratio": 0.8},
    },
]


@pytest.mark.parametrize("session", FIRST_WORDS)
def test_what_clients_say_first_is_accepted(session: Event) -> None:
    assert Talk().types(Talk().update(**session)) == ["session.updated"]


@pytest.mark.parametrize(
    ("session", "param"),
    [
        ({"audio": {"output": {"speed": 9}}}, "session.audio.output.speed"),
        (
            {"audio": {"input": {"format": {"type": "audio/mp3"}}}},
            "session.audio.input.format.type",
        ),
        (
            {"audio": {"output": {"format": {"type": "audio/pcmu", "rate": 24000}}}},
            "session.audio.output.format.rate",
        ),
        ({"tool_choice": {"type": "function", "name": "f"}}, "session.tool_choice"),
        ({"output_modalities": []}, "session.output_modalities"),
        ({"tools": [{"type": "function"}]}, "session.tools.0.name"),
    ],
)
def test_a_wrong_setting_is_named_and_changes_nothing(session: Event, param: str) -> None:
    talk = Talk()
    before = talk.protocol.settings
    (event,) = talk.update(**session)
    assert event["error"]["param"] == param
    assert talk.protocol.settings == before


def test_the_voice_is_fixed_once_it_was_heard() -> None:
    talk = Talk()
    talk.update(audio={"output": {"voice": "alloy"}})
    talk.utter("Hello.")
    talk.reply("Hi.")
    talk.finish()
    assert talk.types(talk.update(audio={"output": {"voice": "alloy"}})) == ["session.updated"]
    (event,) = talk.update(audio={"output": {"voice": "ash"}})
    assert event["error"]["code"] == "cannot_update_voice"


@pytest.mark.parametrize("name", ["audio/pcmu", "audio/pcma"])
def test_telephone_audio_both_ways(name: str) -> None:
    talk = Talk()
    talk.update(audio={"input": {"format": {"type": name}}, "output": {"format": {"type": name}}})
    talk.say("input_audio_buffer.append", audio=base64.b64encode(b"\x55" * 801).decode())
    heard = [f for f in talk.fed if isinstance(f, Audio)]
    assert (heard[0].rate_hz, sum(len(f.pcm) for f in heard)) == (8000, 801)
    talk.utter("Hello.")
    tone = (8000 * np.sin(np.arange(24_000) * 2 * np.pi * 440 / 24_000)).astype(np.int16)
    for start in range(0, 24_000, 500):
        talk.hear(1, "tts", Audio(tone[start : start + 500], 24_000))
    talk.finish()
    heard_back = audio_of(talk)
    assert len(heard_back) == 8000, "one second stays one second"
    if name == "audio/pcmu":
        power = np.abs(np.fft.rfft(ulaw_decode(heard_back).astype(float)))
        assert abs(int(np.argmax(power)) - 440) <= 1


@given(st.lists(st.integers(0, 700), max_size=12), st.sampled_from([8000, 16_000, 22_050, 44_100]))
def test_audio_keeps_its_length_through_any_cut_and_rate(cuts: list[int], rate_hz: int) -> None:
    talk = Talk()
    talk.utter("Hello.")
    for length in cuts:
        talk.hear(1, "tts", Audio(np.ones(length, np.int16), rate_hz))
    talk.finish()
    assert abs(len(audio_of(talk)) / 2 - sum(cuts) * 24_000 / rate_hz) <= 1


def test_partial_transcripts_grow_into_the_final_one() -> None:
    talk = Talk()
    number = talk.start_speech()
    for text in ("What", "What is", "What", "What is the"):
        talk.hear(0, "asr", Transcript(text, False, number))
    talk.stop_speech(number, "What is the time?")
    head = "conversation.item.input_audio_transcription."
    deltas = [e["delta"] for e in talk.events if e["type"] == head + "delta"]
    assert "".join(deltas) == "What is the time?"
    assert talk.last(head + "completed")["usage"] == {"type": "duration", "seconds": 0.9}


def test_without_transcription_the_model_hears_but_the_client_is_not_told() -> None:
    talk = Talk()
    talk.update(audio={"input": {"transcription": None}})
    talk.utter("Hello.")
    assert not any("transcription" in kind for kind in talk.types())
    assert said(talk) == [("user", "Hello.")]


def test_a_transcription_session_only_transcribes() -> None:
    talk = Talk()
    wish = {"type": "transcription", "include": ["item.input_audio_transcription.logprobs"]}
    session = talk.say("session.update", session=wish)[0]["session"]
    assert session["type"] == "transcription"
    assert "output" not in session["audio"]
    talk.utter("Hello.")
    talk.pass_(5)
    assert "response.created" not in talk.types()
    assert talk.last("conversation.item.input_audio_transcription.completed")["logprobs"] == []
    assert talk.say("response.create")[0]["type"] == "error"


def test_audio_inside_an_item_is_transcribed_in_its_place() -> None:
    talk = manual()
    part = {"type": "input_audio", "audio": pcm(700)}
    item = {"id": "mine", "type": "message", "role": "user", "content": [part]}
    talk.say("conversation.item.create", item=item)
    talk.say("response.create")
    assert talk.opened == {}
    talk.hear(
        0,
        "turn",
        SpeechStarted(1, 0, detected=False),
        SpeechStopped(1, 700, detected=False),
    )
    talk.hear(0, "asr", Transcript("Hello from a file.", True, 1))
    assert said(talk) == [("user", "Hello from a file.")]
    talk.update(audio={"input": {"turn_detection": {"type": "server_vad"}}})
    talk.append(2000)
    talk.finish()
    event = talk.hear(0, "turn", SpeechStarted(2, 1700))[0]
    assert event["audio_start_ms"] == 1000, "times count the client's stream alone"


def test_pictures_come_as_data_and_are_never_fetched() -> None:
    talk = Talk()
    data = base64.b64encode(b"png bytes").decode()

    def show(url: str) -> list[Event]:
        parts = [
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "image_url": url},
        ]
        item = {"type": "message", "role": "user", "content": parts}
        return talk.say("conversation.item.create", item=item)

    assert show("https://example.org/a.png")[0]["error"]["param"] == "item.content.1.image_url"
    assert talk.types(show(f"data:image/png;base64,{data}"))[0] == "conversation.item.added"
    talk.say("response.create")
    assert talk.prompt()[0].images[0].data == b"png bytes"


def test_a_voice_and_its_speed_reach_the_engine() -> None:
    talk = Talk()
    effects = talk.protocol.receive(
        {
            "type": "response.create",
            "response": {"audio": {"output": {"voice": "marin", "speed": 1.25}}},
        },
        0.0,
    )
    frames = [frame for effect in effects for frame in getattr(effect, "frames", ())]
    assert frames[0] == Voice("marin", 1.25)


def test_timings_are_told_to_those_who_ask_and_add_up() -> None:
    talk = Talk(timings=True)
    for _ in range(10):
        talk.append(100)
        talk.pass_(0.1)
    number = talk.start_speech(100)
    talk.pass_(0.2)
    talk.hear(0, "turn", SpeechStopped(number, 1000))
    talk.pass_(0.1)
    talk.hear(0, "asr", Transcript("Hello.", True, number))
    talk.pass_(0.05)
    talk.hear(1, "llm", TextDelta("Hi."))
    talk.pass_(0.07)
    talk.reply("Hi.")
    told = talk.last("motet.turn.timings")
    stages = ("vad_ms", "end_of_turn_ms", "asr_ms", "llm_first_token_ms", "tts_first_audio_ms")
    assert sum(told[name] for name in stages) == pytest.approx(told["total_ms"], abs=0.5)
    assert told["asr_ms"] == pytest.approx(100, abs=1)
    assert told["llm_first_token_ms"] == pytest.approx(50, abs=1)
    assert told["tts_first_audio_ms"] == pytest.approx(70, abs=1)
    assert told["item_id"] == spoken_item(talk)
    talk.finish()
    assert talk.reports[0].stages_ms["total_ms"] == told["total_ms"]
    quiet = Talk()
    quiet.utter("Hello.")
    quiet.reply("Hi.")
    assert not any(kind.startswith("motet.") for kind in quiet.types())


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
