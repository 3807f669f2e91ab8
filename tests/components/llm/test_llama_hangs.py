"""What would stop llama.cpp for everybody: it is refused, or noticed and ended."""

from __future__ import annotations

import signal
from typing import Any

import psutil
import pytest
from running import ask, text_of

from motet.components.base import Setup
from motet.components.errors import BadInput, ComponentFailed
from motet.components.frames import Message, Prompt, Tool
from motet.components.llm import llama
from motet.components.llm.schemas import MOST_CHOICES, check_schemas, choices

ASKED = (Message("user", "Say hello."),)
MANY: dict[str, Any] = {"enum": [f"x{n}" for n in range(MOST_CHOICES + 1)]}
NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {f"p{n}": {"anyOf": [{"enum": ["a", "b"]}] * 100} for n in range(3)},
}


@pytest.mark.parametrize("schema", [MANY, {"items": MANY}, NESTED], ids=["enum", "deeper", "sum"])
def test_schemas_of_too_many_choices_are_refused(schema: dict[str, Any]) -> None:
    tool = Tool("pick", "Pick one", {"type": "object", "properties": {"x": schema}})
    with pytest.raises(BadInput, match=rf"response_format has {choices(schema)} choices"):
        check_schemas(Prompt(ASKED, schema=schema), where="llm")
    with pytest.raises(BadInput, match="tools: 'pick'"):
        check_schemas(Prompt(ASKED, tools=(tool,)), where="llm")


def test_others_are_not() -> None:
    check_schemas(Prompt(ASKED), where="llm")
    usual = {"enum": ["a"] * MOST_CHOICES, "properties": {"enum": {"type": "string"}}}
    check_schemas(Prompt(ASKED, schema=usual), where="llm")


def engines() -> set[psutil.Process]:
    """Those of this process; others' tests may have left one for later ones."""
    children = psutil.Process().children()
    return {one for one in children if "llamaserver" in " ".join(one.cmdline())}


async def test_an_engine_that_hangs_is_ended_and_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.setattr(llama, "STUCK_S", 0.3)
    llm = llama.LlamaLlm(Setup(node="llm", options={"first_token_timeout_s": 3.0}))
    try:
        before = engines()
        await llm.load()
        (engine,) = engines() - before
        engine.send_signal(signal.SIGSTOP)
        with pytest.raises(ComponentFailed, match="hung"):
            await ask(llm, Prompt(ASKED, max_tokens=4))
        assert not engine.is_running()
        monkeypatch.setattr(llama, "STUCK_S", 30.0)
        assert text_of(await ask(llm, Prompt(ASKED, max_tokens=4)))
    finally:
        await llm.close()
