"""Prompts from conversations: whole turns, whole tool pairs, within a budget."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.components.errors import BadInput
from motet.components.frames import CallRequest, Message, Spoken
from motet.pipelines.conversation import Item
from motet.pipelines.history import Budget, History, estimate_tokens

LARGE = Budget(100_000)


def call(number: int) -> Item:
    return Item(f"call{number}", "assistant", call=CallRequest(f"c{number}", "f", "{}"))


def output(number: int) -> Item:
    return Item(f"out{number}", text=f"result {number}", answers=f"c{number}")


def user(text: str) -> Item:
    return Item(f"u-{text}", "user", text)


def assistant(text: str) -> Item:
    return Item(f"a-{text}", "assistant", text)


def prompt(*items: Item, budget: Budget = LARGE) -> tuple[Message, ...]:
    return History().messages(items, "Be brief.", budget)


def test_utterances_before_an_answer_are_one_message() -> None:
    said = prompt(user("What is"), user("the time?"), assistant("Noon."), user("Thanks."))
    assert [(m.role, m.text) for m in said] == [
        ("system", "Be brief."),
        ("user", "What is the time?"),
        ("assistant", "Noon."),
        ("user", "Thanks."),
    ]


def test_a_reply_that_nobody_heard_leaves_the_history() -> None:
    unheard = Item("a", "assistant", "Hello!", slices=[Spoken("Hello!", 0, 500)], sent_ms=400)
    unheard.cut(0)
    assert [m.role for m in prompt(user("Hi"), unheard, user("Hello?"))] == ["system", "user"]


def test_a_call_stands_next_to_its_output_even_when_others_spoke_between() -> None:
    said = prompt(user("Weather?"), call(1), user("Hurry."), output(1))
    assert [(m.role, m.call_id) for m in said[1:]] == [
        ("user", None),
        ("assistant", None),
        ("tool", "c1"),
        ("user", None),
    ]


def test_parallel_calls_are_one_message_with_all_outputs_behind_it() -> None:
    said = prompt(user("Both?"), assistant("Let me see."), call(1), call(2), output(2), output(1))
    assert [m.role for m in said[2:]] == ["assistant", "tool", "tool"]
    assert said[2].text == "Let me see."
    assert [c.call_id for c in said[2].calls] == ["c1", "c2"]
    assert [m.call_id for m in said[3:]] == ["c1", "c2"]


def test_half_a_pair_never_enters() -> None:
    said = prompt(user("Go"), call(1), output(7), user("Well?"))
    assert [(m.role, m.text) for m in said[1:]] == [("user", "Go Well?")]


def test_old_turns_go_first_and_stay_away() -> None:
    items = [user("one " * 50), assistant("1"), user("two " * 50), assistant("2"), user("three")]
    history = History()
    small = Budget(90)
    kept = history.messages(items, "Be brief.", small)
    assert [m.text.split()[0] for m in kept] == ["Be", "two", "2", "three"]
    again = history.messages([*items, assistant("3")], "Be brief.", LARGE)
    assert not any("one" in m.text for m in again)


def test_a_retention_ratio_makes_room_ahead() -> None:
    items = [user(f"{n} " * 20) for n in range(1, 9)]
    turns = [item for one in items for item in (one, assistant("ok"))]
    kept = History().messages(turns, "", Budget(100, keep=0.5))
    assert sum(estimate_tokens(m) for m in kept) <= 50


def test_without_truncation_a_long_history_is_refused() -> None:
    with pytest.raises(BadInput, match="the limit is 10"):
        prompt(user("word " * 100), budget=Budget(10, cut=False))


KINDS = st.sampled_from(["user", "assistant", "system", "call", "output"])


@given(st.lists(st.tuples(KINDS, st.integers(1, 3)), max_size=30), st.integers(1, 200))
def test_any_conversation_makes_a_prompt_a_model_can_take(
    script: list[tuple[str, int]], limit: int
) -> None:
    items: list[Item] = []
    used: set[str] = set()
    for place, (kind, number) in enumerate(script):
        item = {"call": call, "output": output}.get(kind, lambda _: None)(number)
        item = item or Item(f"i{place}", kind, f"word {place}")  # pyright: ignore[reportArgumentType]
        if item.id not in used:
            used.add(item.id)
            items.append(item)
    said = prompt(*items, budget=Budget(limit))
    awaited: list[str] = []
    for message in said:
        if message.role == "tool":
            assert message.call_id in awaited
            awaited.remove(message.call_id)
        else:
            assert not awaited, "a call without its output"
            awaited = [c.call_id for c in message.calls]
    assert not awaited
    roles = [m.role for m in said]
    assert ("user", "user") not in itertools.pairwise(roles)


def test_what_is_to_be_answered_stays_whatever_is_said_to_the_model_after_it() -> None:
    asked = user("word " * 1000)
    note = Item("note", "system", "Answer in French.")
    said = prompt(user("a"), assistant("b"), asked, note, budget=Budget(100))
    assert [(m.role, m.text) for m in said[1:]] == [
        ("user", asked.text.strip()),
        ("system", note.text),
    ]
