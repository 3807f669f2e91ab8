"""llm/hf on a tiny random model: many answers at once are those of each alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tinymodels import TEMPLATE, save, tokenizer

from motet.components.base import Context, Resources, Setup
from motet.components.errors import BadInput, ComponentFailed
from motet.components.frames import (
    Completed,
    Embedding,
    Frame,
    ImagePart,
    Message,
    Prompt,
    TextDelta,
    Tool,
    ToolCall,
    Voice,
)
from motet.components.llm.detokenise import Detokeniser
from motet.components.llm.hf import HfLlm
from motet.components.llm.hfprompt import PromptWriter
from motet.components.llm.sampling import Sampler

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("llama")
    return folder, save("llama", folder)


@asynccontextmanager
async def loaded(folder: Path, **options: Any) -> AsyncIterator[HfLlm]:
    settings = {"context_tokens": 256, "temperature": 0.0, "prompt_stretch": 16, **options}
    llm = HfLlm(Setup("llm", str(folder), settings, Resources(), 4))
    await llm.load()
    try:
        yield llm
    finally:
        await llm.close()


async def ask(llm: HfLlm, *frames: Frame) -> list[Frame]:
    async def source() -> AsyncIterator[Frame]:
        for frame in frames:
            yield frame

    async with aclosing(llm.run(source(), Context())) as answer:  # type: ignore[type-var]
        return [frame async for frame in answer]


def text_of(frames: list[Frame]) -> str:
    return "".join(frame.text for frame in frames if isinstance(frame, TextDelta))


def prompt(text: str, **settings: Any) -> Prompt:
    return Prompt((Message("user", text),), **{"max_tokens": 24} | settings)


def alone(model: tuple[Path, Any], asked: Prompt) -> str:
    """What transformers' own `generate` makes of it."""
    folder, whole = model
    ids = PromptWriter(folder, family=None, image_token=-1, template=None).write(asked, ())
    made = whole.generate(
        input_ids=torch.tensor([ids]),
        attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        max_new_tokens=asked.max_tokens,
        do_sample=False,
    )
    return tokenizer().decode(made[0, len(ids) :], skip_special_tokens=True)


async def test_answers_that_share_steps_are_those_of_generate(model: tuple[Path, Any]) -> None:
    asked = [prompt("ab" * n, max_tokens=4 + 7 * n) for n in range(1, 10)]
    wanted = [alone(model, one) for one in asked]
    async with loaded(model[0], parallel=3) as llm:
        answers = await asyncio.gather(*(ask(llm, one) for one in asked))
        assert llm.loop is not None
        steps = llm.loop.steps
    assert [text_of(one) for one in answers] == wanted
    tokens = [frame.usage.output_tokens for one in answers for frame in one[-1:]]  # type: ignore[attr-defined]
    assert steps < sum(tokens), "they shared steps"
    assert len(set(wanted)) > 3


async def test_a_closed_run_frees_its_row_at_once(model: tuple[Path, Any]) -> None:
    async with loaded(model[0], parallel=1, context_tokens=2000) as llm:
        long = asyncio.create_task(ask(llm, prompt("long", max_tokens=1900)))
        async with asyncio.timeout(10):
            while llm.loop is None or not llm.loop.active:  # noqa: ASYNC110 - a thread is awaited
                await asyncio.sleep(0.005)
        long.cancel()
        async with asyncio.timeout(5):
            answer = await ask(llm, prompt("short", max_tokens=3))
    assert isinstance(answer[-1], Completed)


async def test_closing_ends_whoever_still_waits(model: tuple[Path, Any]) -> None:
    async with loaded(model[0], parallel=1, context_tokens=2000) as llm:
        asks = [asyncio.create_task(ask(llm, prompt("x", max_tokens=1900))) for _ in range(3)]
        await asyncio.sleep(0.1)
    ended = await asyncio.gather(*asks, return_exceptions=True)
    assert [type(one) for one in ended] == [ComponentFailed] * 3


async def test_seeds_repeat_and_differ_whoever_shares_the_step(model: tuple[Path, Any]) -> None:
    hot = {"temperature": 1.5, "top_p": 0.9}
    async with loaded(model[0], parallel=4) as llm:
        asked = [prompt("x", seed=seed, **hot) for seed in (1, 1, 2)] + [prompt("y" * 30)]
        first = [text_of(one) for one in await asyncio.gather(*(ask(llm, one) for one in asked))]
        again = text_of(await ask(llm, asked[0]))
    assert first[0] == first[1] == again
    assert first[0] != first[2]


async def test_stop_strings_cut_the_text_and_end_the_answer(model: tuple[Path, Any]) -> None:
    whole = alone(model, prompt("stop here", max_tokens=60))
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
    ids = PromptWriter(folder, family=None, image_token=-1, template=None).write(
        prompt("score"), ()
    )
    with torch.inference_mode():
        scores = whole(torch.tensor([ids])).logits[0, -1].float().log_softmax(-1)
    best = scores.topk(3).values.tolist()
    assert [value for _, value in top[0].tokens] == pytest.approx(best, abs=1e-4)
    assert pairs[0][1] == pytest.approx(best[0], abs=1e-4)
    assert pairs[0] == top[0].tokens[0]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (prompt("x" * 400), "the context holds 256"),
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


async def test_a_step_that_breaks_fails_what_ran_and_the_next_is_fine(
    model: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with loaded(model[0]) as llm:
        assert llm.loop is not None
        real = llm.loop._model.step

        def broken(*args: Any) -> Any:
            raise RuntimeError("out of memory")

        monkeypatch.setattr(llm.loop._model, "step", broken)
        with pytest.raises(ComponentFailed, match="out of memory"):
            await ask(llm, prompt("x"))
        monkeypatch.setattr(llm.loop._model, "step", real)
        assert text_of(await ask(llm, prompt("x"))) == alone(model, prompt("x"))


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
    writer = PromptWriter(tmp_path, family=None, image_token=-1, template=None)
    assert "weather" in tokenizer().decode(writer.write(asked, ()))


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"size": {"enum": ["small", "large"]}, "count": {"type": "integer"}},
    "required": ["size"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("heat", [0.0, 1.5])
async def test_answers_are_held_to_a_schema_while_others_are_free(
    model: tuple[Path, Any], heat: float
) -> None:
    async with loaded(model[0], context_tokens=512) as llm:
        held = prompt("x", schema=SCHEMA, temperature=heat, seed=1, max_tokens=300)
        answers = await asyncio.gather(ask(llm, held), ask(llm, prompt("ab")))
    done = answers[0][-1]
    assert isinstance(done, Completed)
    if done.reason == "stop":
        found = json.loads(text_of(answers[0]))
        assert found["size"] in ("small", "large")
        assert set(found) <= {"size", "count"}
    else:
        assert text_of(answers[0]).startswith("{")
    assert text_of(answers[1]) == alone(model, prompt("ab"))


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


texts = st.text(alphabet="abé€😀\n ", max_size=40)


@given(texts, st.lists(st.text(alphabet="abé\n ", min_size=1, max_size=4), max_size=3))
def test_pieces_join_to_the_text_before_the_first_stop(text: str, stops: list[str]) -> None:
    tokens = tokenizer()

    def decode(ids: list[int]) -> str:
        return str(tokens.decode(ids, skip_special_tokens=True))

    reader = Detokeniser(decode, tuple(stops))
    pieces: list[str] = []
    for token in tokens.encode(text, add_special_tokens=False):
        pieces.append(reader.push(token))
        if reader.stopped:
            break
    else:
        pieces.append(reader.finish())
    said = "".join(pieces)
    ends = [text.find(stop) for stop in stops if stop in text]
    assert "\ufffd" not in said
    if not ends:
        assert said == text
    else:
        assert text.startswith(said)
        assert not any(stop in said for stop in stops)
        assert any(text[len(said) :].startswith(stop) for stop in stops)
