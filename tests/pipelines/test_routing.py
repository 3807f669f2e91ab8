"""Adapters (LoRA): prompts that name one go to the replica that has it, while it has room."""

from __future__ import annotations

from motet.components.frames import Message, Prompt
from motet.pipelines.routing import Router, prefix_of
from motet.pipelines.scaling import Replica


def prompt(system: str, adapter: str | None = None) -> str:
    return prefix_of(Prompt((Message("system", system),), adapter=adapter))


def test_an_adapter_keeps_its_replica_whatever_the_prompt_begins_with() -> None:
    router = Router(concurrency=8)
    fleet = [Replica("a", "ready", 1), Replica("b", "ready", 0), Replica("c", "ready", 1)]

    def choose(prefix: str) -> str:
        found = router.choose(fleet, prefix=prefix)
        assert found is not None
        return found.id

    assert choose(prompt("one", "legal")) == "b"
    fleet[1].sessions = 2
    assert choose(prompt("two", "legal")) == "b", "another beginning, the same adapter"
    assert choose(prompt("two", "medical")) == "a", "an adapter of its own isn't drawn there"
    assert choose(prompt("one")) == "a", "nor is the plain model"
    fleet[1].sessions = 4
    assert choose(prompt("three", "legal")) == "a", "too busy: the adapter is loaded elsewhere too"


def test_a_prefix_counts_before_its_adapter() -> None:
    router = Router(concurrency=16)
    fleet = [Replica("a", "ready", 0), Replica("b", "ready", 1)]
    assert router.choose(fleet, prefix=prompt("one", "x")).id == "a"  # type: ignore[union-attr]
    fleet[0].sessions = 8
    assert router.choose(fleet, prefix=prompt("two", "x")).id == "b"  # type: ignore[union-attr]
    fleet[0].sessions = 1
    assert router.choose(fleet, prefix=prompt("one", "x")).id == "a"  # type: ignore[union-attr]


def test_names_with_slashes_are_adapters_too() -> None:
    prefix = prompt("one", "org/name")
    assert prefix.rpartition("/")[0] == "org/name"
    assert prompt("one") != prefix
    assert "/" not in prompt("one")


def test_prompts_that_share_nothing_go_where_there_is_most_room() -> None:
    assert prefix_of(Prompt((Message("user", "hello"),))) == ""
