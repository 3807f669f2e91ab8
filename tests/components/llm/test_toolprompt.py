"""Tools told in words, and calls read out of text."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.components.errors import ComponentFailed
from motet.components.frames import (
    CallRequest,
    Completed,
    Frame,
    Message,
    Prompt,
    TextDelta,
    Tool,
    ToolCall,
)
from motet.components.llm.toolprompt import ToolReader, without_tools

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = (Tool("weather", "of a city", CITY), Tool("time"))


def prompt(choice: str = "auto", spoken: bool = True) -> Prompt:
    return Prompt((Message("user", "Hi"),), tools=TOOLS, tool_choice=choice, spoken=spoken)


def read(asked: Prompt, text: str, cuts: list[int], reason: str = "stop") -> list[Frame]:
    """The frames for an answer that comes cut at `cuts`."""
    reader, out = ToolReader(asked), []
    bounds = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    for low, high in pairwise(bounds):
        out += reader.feed(TextDelta(text[low:high]))
    return out + reader.feed(Completed(reason))  # type: ignore[arg-type]


def words(frames: list[Frame], spoken: bool = True) -> str:
    return "".join(f.text for f in frames if isinstance(f, TextDelta) and f.spoken == spoken)


def calls(frames: list[Frame]) -> list[tuple[int, str, str]]:
    return [(f.index, f.name, f.arguments) for f in frames if isinstance(f, ToolCall) and f.done]


def test_the_tools_stand_in_the_system_message() -> None:
    plain = without_tools(Prompt((Message("system", "Be brief."),), tools=TOOLS))
    assert plain.tools == ()
    assert plain.schema is None
    text = plain.messages[0].text
    assert text.startswith("Be brief.")
    assert json.dumps(CITY) in text
    assert without_tools(prompt()).messages[0].role == "system"
    assert without_tools(prompt("none")).messages == (Message("user", "Hi"),)


def test_a_forced_call_becomes_a_schema() -> None:
    assert without_tools(prompt("weather")).schema == CITY
    any_of = without_tools(prompt("required")).schema
    assert any_of is not None
    names = [option["properties"]["name"]["const"] for option in any_of["anyOf"]]
    assert names == ["weather", "time"]


def test_a_past_call_and_its_result_are_told_as_text() -> None:
    call = CallRequest("c", "weather", '{"city": 1}')
    past = Prompt(
        (
            Message("assistant", "Let me see.", calls=(call,)),
            Message("tool", "4 C", call_id="c"),
        )
    )
    told = without_tools(past).messages
    assert told[0].text.startswith("Let me see.\n<tool_call>")
    written = told[0].text.split("<tool_call>")[1].split("</tool_call>")[0]
    assert json.loads(written) == {"name": "weather", "arguments": {"city": 1}}
    assert (told[1].role, "4 C" in told[1].text) == ("user", True)


@given(st.lists(st.integers(0, 500), max_size=10))
def test_calls_among_text_are_found_under_any_cut(cuts: list[int]) -> None:
    text = (
        'Sure <b>.<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
        ' and <tool_call>[{"name": "time", "arguments": {}}]</tool_call> a <tool'
    )
    frames = read(prompt(), text, cuts)
    assert words(frames) == "Sure <b>. and  a <tool"
    assert calls(frames) == [(0, "weather", '{"city": "Oslo"}'), (1, "time", "{}")]
    assert frames[-1] == Completed("tool_calls")
    assert len({f.call_id for f in frames if isinstance(f, ToolCall)}) == 2


@pytest.mark.parametrize(
    "inside", ["not json", '{"name": "unknown"}', "[1]", '{"name": "time"'], ids=str
)
def test_what_is_no_call_is_text_that_is_not_spoken(inside: str) -> None:
    frames = read(prompt(), f"Well. <tool_call>{inside}</tool_call>", [3, 9])
    assert words(frames) == "Well. "
    assert inside in words(frames, spoken=False)
    assert calls(frames) == []
    assert frames[-1] == Completed("stop")


def test_text_passes_at_once() -> None:
    reader = ToolReader(prompt(spoken=False))
    assert reader.feed(TextDelta("Hello ")) == [TextDelta("Hello ", spoken=False)]
    assert reader.feed(TextDelta("<")) == []
    assert reader.feed(TextDelta("3")) == [TextDelta("<3", spoken=False)]


def test_forced_calls_are_read_whole_and_a_cut_one_is_a_failure() -> None:
    assert calls(read(prompt("weather"), '{"city": "Oslo"}', [4])) == [
        (0, "weather", '{"city": "Oslo"}')
    ]
    required = '{"name": "time", "arguments": {}}'
    assert calls(read(prompt("required"), required, [4])) == [(0, "time", "{}")]
    with pytest.raises(ComponentFailed, match="max_tokens"):
        read(prompt("weather"), '{"city": "Os', [4], "length")
