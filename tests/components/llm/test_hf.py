"""llm/hf on a tiny random model: what is asked for, and what comes of it."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from running import ask, text_of
from tinyllm import alone, loaded, prompt, writer_of
from tinymodels import TEMPLATE, save, tokenizer
from torch._dynamo.utils import counters

from motet.components.errors import BadInput
from motet.components.frames import (
    Completed,
    Embedding,
    ImagePart,
    Message,
    Prompt,
    TextDelta,
    Tool,
    ToolCall,
    Voice,
)
from motet.components.llm import hf
from motet.components.llm.guide import Guides
from motet.components.llm.sampling import Sampler

pytestmark = pytest.mark.timeout(60)


async def test_stop_strings_cut_the_text_and_end_the_answer(model: tuple[Path, Any]) -> None:
    whole = alone(*model, prompt("stop here", max_tokens=60))
    stop = whole[5:8]
    async with loaded(model[0]) as llm:
        answer = await ask(llm, prompt("stop here", max_tokens=60, stop=(stop,)))
    assert text_of(answer) == whole[: whole.index(stop)]
    done = answer[-1]
    assert isinstance(done, Completed)
    assert done.reason == "stop"
    assert done.usage.output_tokens < 60


async def test_log_probabilities_are_the_models(model: tuple[Path, Any]) -> None:
    folder, whole = model
    async with loaded(folder) as llm:
        answer = await ask(llm, prompt("score", logprobs=3, max_tokens=8))
    said = [frame for frame in answer if isinstance(frame, TextDelta)]
    pairs = [pair for frame in said for pair in frame.logprobs]
    top = [entry for frame in said for entry in frame.top]
    assert len(pairs) == len(top) == 8
    ids = writer_of(folder).write(prompt("score"), ())
    with torch.inference_mode():
        scores = whole(torch.tensor([ids])).logits[0, -1].float().log_softmax(-1)
    best = scores.topk(3).values.tolist()
    assert [value for _, value in top[0].tokens] == pytest.approx(best, abs=1e-4)
    assert pairs[0][1] == pytest.approx(best[0], abs=1e-4)
    assert pairs[0] == top[0].tokens[0]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (prompt("x" * 400), "the context holds 256; shorten messages"),
        (prompt("x", schema={"type": "nonsense"}), "schema can't be held to"),
        (prompt("x", tools=(Tool("t"),), tool_choice="u"), "'u' is not a tool"),
        (Prompt((Message("user", "x", (ImagePart(b"", at=0),)),)), "reads no pictures"),
    ],
)
async def test_what_cannot_be_done_is_said_and_costs_nobody_else(
    model: tuple[Path, Any], asked: Prompt, words: str
) -> None:
    async with loaded(model[0]) as llm:
        other = asyncio.create_task(ask(llm, prompt("fine", max_tokens=40)))
        with pytest.raises(BadInput, match=words):
            await ask(llm, asked)
        assert isinstance((await other)[-1], Completed)


async def test_a_voice_passes_and_stray_embeddings_are_refused(model: tuple[Path, Any]) -> None:
    async with loaded(model[0]) as llm:
        answer = await ask(llm, Voice("a"), prompt("x", max_tokens=2))
        assert answer[0] == Voice("a")
        with pytest.raises(BadInput, match="0 pictures came with 1"):
            await ask(llm, Embedding(torch.zeros(3, 64).numpy()), prompt("x"))


CALLS = (
    "{% if tools %}<|im_start|>system\n{{ tools[0].function.name }}<|im_end|>\n{% endif %}"
    + TEMPLATE
)


async def test_tools_go_through_the_template_and_calls_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save("llama", tmp_path, template=CALLS)
    asked = prompt("x", tools=(Tool("weather", "of a city"),), max_tokens=200)
    said = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
    spoken = iter(tokenizer().encode(said + "<|im_end|>", add_special_tokens=False))
    async with loaded(tmp_path, context_tokens=512) as llm:
        choose = Sampler.choose

        def scripted(self: Sampler, logits: Any) -> Any:
            chosen = logits.clone()
            chosen[next(spoken)] = 1e4
            return choose(self, chosen)

        monkeypatch.setattr(Sampler, "choose", scripted)
        answer = await ask(llm, asked)
    assert [type(frame) for frame in answer] == [ToolCall, Completed]
    call = answer[0]
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments) == ("weather", '{"city": "Oslo"}')
    assert answer[1].reason == "tool_calls"  # type: ignore[attr-defined]
    assert "weather" in tokenizer().decode(writer_of(tmp_path).write(asked, ()))


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"size": {"enum": ["small", "large"]}, "count": {"type": "integer"}},
    "required": ["size"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("heat", [0.0, 1.5])
async def test_answers_are_held_to_a_schema_while_others_are_free(
    model: tuple[Path, Any], heat: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = counters["frames"]["total"]
    makers: list[threading.Thread] = []

    class Watched(Guides):
        def guide(self, *args: Any, **more: Any) -> Any:
            makers.append(threading.current_thread())
            return super().guide(*args, **more)

    monkeypatch.setattr(hf, "Guides", Watched)
    async with loaded(model[0]) as llm:
        held = prompt("x", schema=SCHEMA, temperature=heat, seed=1, max_tokens=100)
        answers = await asyncio.gather(ask(llm, held), ask(llm, prompt("ab")))
    assert counters["frames"]["total"] == compiled, "nobody waits for a compiler"
    assert len(makers) == 1
    assert threading.main_thread() not in makers, "nor for a large schema to be read"
    done = answers[0][-1]
    assert isinstance(done, Completed)
    if done.reason == "stop":
        found = json.loads(text_of(answers[0]))
        assert found["size"] in ("small", "large")
        assert set(found) <= {"size", "count"}
    else:
        assert text_of(answers[0]).startswith("{")
    assert text_of(answers[1]) == alone(*model, prompt("ab"))


async def test_a_call_that_must_come_comes(model: tuple[Path, Any]) -> None:
    tool = Tool("order", "", SCHEMA)
    async with loaded(model[0], context_tokens=1024) as llm:
        asked = prompt(
            "x", tools=(tool,), tool_choice="order", max_tokens=400, temperature=1.0, seed=3
        )
        call, done = await ask(llm, asked)
    assert isinstance(call, ToolCall)
    assert json.loads(call.arguments)["size"] in ("small", "large")
    assert done.reason == "tool_calls"  # type: ignore[attr-defined]
