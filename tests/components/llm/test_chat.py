"""The Chat-Completions dialect: what goes out, and what servers of several makes send back."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.components.errors import BadInput, ComponentFailed, MotetError, Overloaded
from motet.components.frames import (
    CallRequest,
    Completed,
    Frame,
    ImagePart,
    Message,
    Prompt,
    TextDelta,
    Tool,
    ToolCall,
)
from motet.components.llm.chat import request_body
from motet.components.llm.chatstream import ChatStream
from motet.components.sse import SseDecoder

PNG = b"\x89PNG\r\n\x1a\n1234"
WEATHER = Tool("weather", "of a city", {"type": "object", "properties": {"city": {}}})


def read(*events: dict[str, Any], complete: bool = True) -> list[Frame]:
    stream = ChatStream(spoken=True)
    frames = [frame for event in events for frame in stream.feed(event)]
    return frames + stream.finish(5.0, complete=complete)


def choice(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]}


def call(index: int | None, arguments: Any, name: str | None = None, call_id: str | None = None):
    piece: dict[str, Any] = {"function": {"arguments": arguments}}
    if name:
        piece["function"]["name"] = name
    if call_id:
        piece["id"] = call_id
    if index is not None:
        piece["index"] = index
    return choice({"tool_calls": [piece]})


def calls_of(frames: list[Frame]) -> dict[int, tuple[str, str, str, bool]]:
    """Per index: id, name, joined arguments, and whether exactly the last piece is done."""
    found: dict[int, list[ToolCall]] = {}
    for frame in frames:
        if isinstance(frame, ToolCall):
            found.setdefault(frame.index, []).append(frame)
    return {
        index: (
            pieces[0].call_id,
            pieces[0].name,
            "".join(piece.arguments for piece in pieces),
            [piece.done for piece in pieces] == [False] * (len(pieces) - 1) + [True],
        )
        for index, pieces in found.items()
        if len({(piece.call_id, piece.name) for piece in pieces}) == 1
    }


def test_a_plain_prompt_sends_only_what_it_sets() -> None:
    body = request_body(Prompt((Message("user", "Hi"),)), "m")
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_usage_can_be_left_out() -> None:
    assert "stream_options" not in request_body(Prompt(()), "m", usage=False)


def test_every_setting_reaches_the_body() -> None:
    prompt = Prompt(
        (
            Message("system", "Be brief."),
            Message("user", "Look", images=(ImagePart(PNG, "low"),)),
            Message("assistant", calls=(CallRequest("c1", "weather", '{"city":"Oslo"}'),)),
            Message("tool", "4 C", call_id="c1"),
        ),
        tools=(WEATHER,),
        tool_choice="weather",
        max_tokens=7,
        temperature=0.0,
        top_p=0.5,
        seed=3,
        stop=("X",),
        schema={"type": "object"},
        logprobs=2,
    )
    body = request_body(prompt, "m", token_field="max_completion_tokens")
    picture = "data:image/png;base64," + base64.b64encode(PNG).decode()
    assert body["messages"][1]["content"] == [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": picture, "detail": "low"}},
    ]
    assert body["messages"][2]["content"] is None
    assert body["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"city":"Oslo"}'
    assert body["messages"][3] == {"role": "tool", "content": "4 C", "tool_call_id": "c1"}
    assert body["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert body["tools"][0]["function"]["parameters"] == WEATHER.parameters
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}
    kept = {key: body[key] for key in ("temperature", "top_p", "seed", "stop", "logprobs")}
    assert kept == {"temperature": 0.0, "top_p": 0.5, "seed": 3, "stop": ["X"], "logprobs": True}
    assert body["top_logprobs"] == 2
    assert body["max_completion_tokens"] == 7
    assert "max_tokens" not in body


def test_what_cannot_be_sent_is_named() -> None:
    with pytest.raises(BadInput, match="PNG, JPEG, WebP and GIF"):
        request_body(Prompt((Message("user", images=(ImagePart(b"BM.."),)),)), "m")
    with pytest.raises(BadInput, match=r"'wether'.*weather"):
        request_body(Prompt((), tools=(WEATHER,), tool_choice="wether"), "m")


def test_openai_text_with_usage_in_an_event_of_its_own() -> None:
    frames = read(
        choice({"role": "assistant", "content": ""}),
        choice({"content": "Hel"}),
        choice({"content": "lo"}),
        choice({}, "stop"),
        {
            "choices": [],
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 4},
            },
        },
    )
    assert frames[:2] == [TextDelta("Hel"), TextDelta("lo")]
    done = frames[-1]
    assert isinstance(done, Completed)
    assert (done.reason, done.first_ms) == ("stop", 5.0)
    assert (done.usage.input_tokens, done.usage.output_tokens, done.usage.cached_tokens) == (
        9,
        2,
        4,
    )


def test_reasoning_is_not_spoken_and_missing_usage_is_no_trouble() -> None:
    frames = read(
        choice({"reasoning_content": "hm", "content": None}),
        choice({"reasoning": "hm"}),
        choice({"content": "Yes"}),
        choice({"content": ""}, "length"),
        {"choices": [], "usage": None},
    )
    assert frames[0] == TextDelta("Yes")
    assert frames[1:] == [Completed("length", first_ms=5.0)]


@pytest.mark.parametrize("finish", ["tool_calls", "stop", "function_call"])
def test_parallel_calls_by_index_interleaved(finish: str) -> None:
    frames = read(
        call(0, "", "weather", "c0"),
        call(0, '{"ci'),
        call(1, '{"city"', "weather", "c1"),
        call(0, 'ty": "Oslo"}'),
        call(1, ':"Rome"}'),
        choice({}, finish),
    )
    assert calls_of(frames) == {
        0: ("c0", "weather", '{"city": "Oslo"}', True),
        1: ("c1", "weather", '{"city":"Rome"}', True),
    }
    assert frames[-1] == Completed("tool_calls", first_ms=5.0)


def test_calls_without_index_id_or_string_arguments() -> None:
    frames = read(call(None, {"city": "Oslo"}, "weather", "a"), call(None, {}, "weather", "b"))
    found = calls_of(frames)
    assert json.loads(found[0][2]) == {"city": "Oslo"}
    assert found[1][0] == "b"
    unnamed = calls_of(read(call(0, '{"a":'), call(0, "1}", "weather"), choice({}, "stop")))
    assert unnamed[0][1:] == ("weather", '{"a":1}', True)
    assert unnamed[0][0].startswith("call_")


def test_a_call_without_arguments_gets_an_empty_object() -> None:
    assert calls_of(read(call(0, None, "now", "c")))[0] == ("c", "now", "{}", True)


def test_a_whole_message_in_place_of_a_stream() -> None:
    frames = read(
        {"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}
    )
    assert frames == [TextDelta("Hi"), Completed("stop", first_ms=5.0)]


def test_logprobs_come_with_their_text() -> None:
    scores = {"content": [{"token": "Hi", "logprob": -0.5, "top_logprobs": []}]}
    assert read(choice({"content": "Hi"}, "stop", logprobs=scores))[0] == TextDelta(
        "Hi", logprobs=(("Hi", -0.5),)
    )


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        ({"message": "bad", "code": 400}, BadInput, "bad"),
        ({"message": "slow down", "code": 429}, Overloaded, "slow down"),
        ("plain words", ComponentFailed, "plain words"),
        (
            {"type": "exceed_context_size_error", "code": 400, "n_prompt_tokens": 9, "n_ctx": 5},
            BadInput,
            "9 tokens, the context holds 5; shorten messages or leave",
        ),
    ],
)
def test_an_error_in_the_stream_ends_it(error: Any, kind: type[MotetError], words: str) -> None:
    with pytest.raises(kind, match=words):
        read({"error": error})


def test_a_broken_off_stream_is_a_failure_and_an_unfinished_but_closed_one_is_not() -> None:
    with pytest.raises(ComponentFailed, match="broke off"):
        read(choice({"content": "Hi"}), complete=False)
    assert isinstance(read(choice({"content": "Hi"}))[-1], Completed)
    with pytest.raises(ComponentFailed, match="abort"):
        read(choice({}, "abort"))


events = st.lists(st.text(alphabet="a{}: \u2028\x85\U0001f600", min_size=1), max_size=5)


@given(events, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 500), max_size=6))
def test_events_survive_any_cut_and_any_line_end(
    wanted: list[str], newline: str, cuts: list[int]
) -> None:
    lines = [": ping", "event: message", "", "retry: 5", ""]
    for event in wanted:
        lines += ["id: 1", f"data: {event}", ""]
    raw = (newline.join(lines) + newline).encode()
    bounds = [0, *sorted(cut % (len(raw) + 1) for cut in cuts), len(raw)]
    decoder = SseDecoder()
    found = [event for low, high in pairwise(bounds) for event in decoder.feed(raw[low:high])]
    assert found + decoder.flush() == wanted


def test_an_endless_event_is_refused() -> None:
    decoder = SseDecoder(limit_bytes=1000)
    with pytest.raises(ComponentFailed, match="1000 bytes"):
        for _ in range(20):
            decoder.feed(b"data: " + b"x" * 100)
    with pytest.raises(ComponentFailed, match="UTF-8"):
        SseDecoder().feed(b"data: \xff\n\n")
