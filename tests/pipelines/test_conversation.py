"""Items in order, what of them was heard, how long the conversation may grow."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.components.errors import BadInput
from motet.components.frames import CallRequest, ImagePart, Spoken
from motet.pipelines.conversation import Conversation, Item, Role, heard_text

STORY = [
    Spoken("The first sentence. ", 0, 1000),
    Spoken("```code```", 1000, 1000),
    Spoken("And a second one.", 1000, 2000),
]


def user(name: str, text: str = "hi") -> Item:
    return Item(name, "user", text)


def ids(conversation: Conversation) -> list[str]:
    return [item.id for item in conversation]


@pytest.mark.parametrize(
    ("heard_ms", "text"),
    [
        (0, ""),
        (100, ""),  # "The" ends at 3/19 of the second
        (160, "The"),
        (999, "The first"),
        (1000, "The first sentence. ```code```"),
        (1500, "The first sentence. ```code```And a"),
        (2000, "The first sentence. ```code```And a second one."),
        (9000, "The first sentence. ```code```And a second one."),
    ],
)
def test_history_holds_the_words_that_were_heard(heard_ms: float, text: str) -> None:
    assert heard_text(STORY, heard_ms) == text


def test_scripts_without_spaces_are_cut_between_characters() -> None:
    assert heard_text([Spoken("今日は晴れです", 0, 700)], 300) == "今日は"


@given(
    st.lists(st.tuples(st.text(max_size=30), st.integers(0, 2000)), max_size=8),
    st.floats(0, 20_000),
    st.floats(0, 20_000),
)
def test_hearing_longer_never_hears_less(
    pieces: list[tuple[str, int]], one: float, other: float
) -> None:
    slices, at_ms = [], 0
    for text, length_ms in pieces:
        slices.append(Spoken(text, at_ms, at_ms + length_ms))
        at_ms += length_ms
    short, long = sorted((one, other))
    whole = "".join(text for text, _ in pieces)
    assert heard_text(slices, long).startswith(heard_text(slices, short))
    assert whole.startswith(heard_text(slices, long))


def test_a_reply_is_heard_at_most_as_far_as_it_was_sent() -> None:
    item = Item("a", "assistant", "…", slices=list(STORY), sent_ms=1000)
    item.cut(5000)
    assert item.heard == "The first sentence. ```code```"
    item.cut(-5)
    assert item.heard == ""


def test_items_are_placed_behind_others() -> None:
    conversation = Conversation()
    for name in "ab":
        conversation.add(user(name))
    conversation.add(user("c"), after="a")
    conversation.add(user("d"), after="root")
    assert ids(conversation) == ["d", "a", "c", "b"]
    assert [conversation.before(name) for name in "dacb"] == [None, "d", "a", "c"]
    with pytest.raises(BadInput, match="'x'"):
        conversation.add(user("e"), after="x")
    with pytest.raises(BadInput, match="already exists"):
        conversation.add(user("a"))


def test_the_oldest_items_go_when_there_are_too_many_and_tools_go_in_pairs() -> None:
    conversation = Conversation(max_items=4)
    conversation.add(Item("s", "system", "be kind"))
    conversation.add(Item("call", "assistant", call=CallRequest("c1", "f", "{}")))
    conversation.add(user("u"))
    conversation.add(Item("out", text="42", answers="c1"))
    assert conversation.add(user("v")) == ["call", "out"]
    assert ids(conversation) == ["s", "u", "v"]


def test_an_output_that_comes_late_finds_its_call() -> None:
    conversation = Conversation(max_items=2)
    conversation.add(Item("call", "assistant", call=CallRequest("c1", "f", "{}")))
    conversation.add(user("u"))
    assert conversation.add(Item("out", text="42", answers="c1")) == ["u"]


def test_outputs_of_one_call_are_bounded_like_all_others() -> None:
    conversation = Conversation(max_items=3)
    conversation.add(Item("call", "assistant", call=CallRequest("c1", "f", "{}")))
    for number in range(20):
        conversation.add(Item(f"out{number}", text="42", answers="c1"))
    assert ids(conversation)[0] == "call"
    assert ids(conversation)[-1] == "out19"
    assert len(conversation) <= 3


@pytest.mark.parametrize(
    "fields",
    [
        {"images": (ImagePart(b"x" * 60),)},
        {"text": "x" * 60},
        {"role": "assistant", "call": CallRequest("c", "f", "x" * 60)},
    ],
)
def test_pictures_text_and_arguments_are_bounded_too(fields: dict[str, Any]) -> None:
    conversation = Conversation(max_bytes=100)
    conversation.add(Item("a", **fields))
    assert conversation.add(Item("b", **fields)) == ["a"]


def test_text_that_comes_after_the_item_counts() -> None:
    conversation = Conversation(max_bytes=100)
    reply = Item("reply", "assistant", status="in_progress")
    conversation.add(reply)
    reply.text = "x" * 90
    reply.status = "completed"
    assert conversation.add(user("next", "y" * 20)) == ["reply"]


@pytest.mark.parametrize("bounds", [{"max_items": 3}, {"max_bytes": 30}])
def test_system_items_stay_so_that_one_too_many_is_refused(bounds: dict[str, int]) -> None:
    conversation = Conversation(**bounds)
    for name in "abc":
        conversation.add(Item(name, "system", "x" * 10))
    with pytest.raises(BadInput, match="3 system items of 30 bytes"):
        conversation.add(Item("d", "system", "x" * 10))
    conversation.remove("b")
    conversation.add(Item("d", "system", "x" * 10))
    assert ids(conversation) == ["a", "c", "d"]


@pytest.mark.parametrize("role", ["user", "system"])
def test_a_long_conversation_is_not_added_up_for_each_item(
    monkeypatch: pytest.MonkeyPatch, role: Role
) -> None:
    sized = 0
    size_of = Item.size_bytes.fget
    assert size_of is not None

    def counted(item: Item) -> int:
        nonlocal sized
        sized += 1
        return size_of(item)

    monkeypatch.setattr(Item, "size_bytes", property(counted))
    conversation = Conversation(max_items=300)
    for number in range(300):
        conversation.add(Item(str(number), role, "hi"))
    assert sized <= 4 * 300


@given(st.lists(st.sampled_from(["user", "system", "call", "output"]), max_size=60))
def test_it_never_grows_beyond_its_bound_nor_keeps_half_a_pair(kinds: list[str]) -> None:
    conversation, open_calls = Conversation(max_items=5), []
    added: set[str] = set()
    gone: set[str] = set()
    for number, kind in enumerate(kinds):
        name = str(number)
        item = user(name)
        if kind == "system":
            item = Item(name, "system", "s")
            if sum(known.role == "system" for known in conversation) == 5:
                continue
        elif kind == "call":
            item = Item(name, "assistant", call=CallRequest(name, "f", "{}"))
            open_calls.append(name)
        elif kind == "output" and (known := [c for c in open_calls if c in conversation]):
            item = Item(name, answers=known[0], text="ok")
            open_calls.remove(known[0])
        added.add(name)
        gone |= set(conversation.add(item))
        assert len(conversation) <= 5 + 2
    assert set(ids(conversation)) == added - gone
    for item in conversation:
        if item.answers is not None:
            assert conversation.call(item.answers) is not None
