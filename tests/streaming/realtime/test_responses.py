"""Responses of a realtime session: what they take, where they go, how long they may be."""

from __future__ import annotations

from scenes import said
from talk import Talk

from motet.components.frames import (
    TextDelta,
    ToolCall,
)
from motet.pipelines.spec import ConversationSpec


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
