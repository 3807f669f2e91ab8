"""SmolLM2 on llama.cpp: real answers, slots that come free, and what can go wrong."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import httpx
import psutil
import pytest
import pytest_asyncio
from running import ask, stream, text_of

from motet.components.base import Context, Resources, Setup
from motet.components.errors import (
    BadInput,
    ComponentFailed,
    DeadlineExceeded,
)
from motet.components.frames import (
    Completed,
    ImagePart,
    Message,
    Prompt,
    TextDelta,
    Tool,
    ToolCall,
    Voice,
)
from motet.components.llm.llama import LlamaLlm
from motet.components.llm.llamachild import LlamaChild

pytest.importorskip("xllamacpp")
pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="module"),
]

SYSTEM = Message("system", "You are a helpful assistant. Answer in one short sentence.")
STORY = Prompt(
    (SYSTEM, Message("user", "Tell me a very long story.")), max_tokens=1500, temperature=0
)
TIMER = Tool(
    "set_timer",
    "Set a timer",
    {
        "type": "object",
        "properties": {"seconds": {"type": "integer"}},
        "required": ["seconds"],
        "additionalProperties": False,
    },
)
LIGHT = Tool(
    "light",
    "Switch the light",
    {
        "type": "object",
        "properties": {"state": {"enum": ["on", "off"]}},
        "required": ["state"],
        "additionalProperties": False,
    },
)


def question(text: str, **settings: object) -> Prompt:
    settings = {"temperature": 0.0, "max_tokens": 40} | settings
    return Prompt((SYSTEM, Message("user", text)), **settings)  # type: ignore[arg-type]


def child(llm: LlamaLlm) -> LlamaChild:
    assert llm._child is not None
    return llm._child


async def busy(llm: LlamaLlm) -> int:
    """Slots that compute."""
    server = child(llm)
    headers = {"Authorization": f"Bearer {server.key}"}
    async with httpx.AsyncClient(base_url=server.address, headers=headers) as http:
        return sum(slot["is_processing"] for slot in (await http.get("/slots")).json())


async def until(llm: LlamaLlm, slots: int) -> None:
    """Wait until that many slots compute; asking the server takes its own time."""
    async with asyncio.timeout(20):
        while await busy(llm) != slots:
            pass


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def llm() -> AsyncIterator[LlamaLlm]:
    component = LlamaLlm(
        Setup("llm", options={"context_tokens": 1024}, resources=Resources(cpus=1))
    )
    await component.load()
    yield component
    await component.close()


async def test_it_answers_and_counts(llm: LlamaLlm) -> None:
    voice = Voice("x")
    out = await ask(llm, voice, question("What is the capital of France?"))
    assert out[0] is voice
    assert "Paris" in text_of(out)
    done = out[-1]
    assert isinstance(done, Completed)
    assert done.reason == "stop"
    assert done.usage.input_tokens > 20
    assert 3 < done.usage.output_tokens < 40
    assert 0 < done.first_ms < 30_000


async def test_prompts_in_one_run_are_answered_in_order(llm: LlamaLlm) -> None:
    out = await ask(
        llm,
        question("What is the capital of France?"),
        question("What is the capital of Japan?", spoken=False),
    )
    ends = [n for n, frame in enumerate(out) if isinstance(frame, Completed)]
    assert len(ends) == 2
    assert "Paris" in text_of(out[: ends[0]])
    assert "Tokyo" in text_of(out[ends[0] :])
    assert not any(f.spoken for f in out[ends[0] :] if isinstance(f, TextDelta))


async def test_the_start_of_a_conversation_is_not_computed_twice(llm: LlamaLlm) -> None:
    first = question("What is the capital of Italy?")
    answer = text_of(await ask(llm, first))
    more = (*first.messages, Message("assistant", answer), Message("user", "And of Spain?"))
    out = await ask(llm, Prompt(more, temperature=0.0, max_tokens=20))
    done = out[-1]
    assert isinstance(done, Completed)
    assert done.usage.cached_tokens >= done.usage.input_tokens - 20


async def test_settings_reach_the_model(llm: LlamaLlm) -> None:
    counting = question("Count from one to ten in words.", max_tokens=4)
    done = (await ask(llm, counting))[-1]
    assert isinstance(done, Completed)
    assert (done.reason, done.usage.output_tokens) == ("length", 4)
    wild = question("Invent a name.", temperature=1.8, seed=7, max_tokens=12)
    assert text_of(await ask(llm, wild)) == text_of(await ask(llm, wild))
    for ranked in (0, 1):
        scored = await ask(llm, question("Say hello.", logprobs=ranked, max_tokens=3))
        deltas = [frame for frame in scored if isinstance(frame, TextDelta)]
        pairs = [pair for delta in deltas for pair in delta.logprobs]
        assert len(pairs) == 3
        assert all(logprob <= 0 for _, logprob in pairs)
        assert all(len(one.tokens) == ranked for delta in deltas for one in delta.top)
        assert all(bool(delta.top) == bool(ranked and delta.logprobs) for delta in deltas)
    stopped = await ask(llm, question("What is the capital of France?", stop=("France",)))
    assert "France" not in text_of(stopped)


async def test_a_schema_is_kept(llm: LlamaLlm) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "size": {"type": "integer"}},
        "required": ["city", "size"],
        "additionalProperties": False,
    }
    out = await ask(llm, question("Describe Paris.", schema=schema, max_tokens=80))
    value = json.loads(text_of(out))
    assert set(value) == {"city", "size"}
    assert isinstance(value["size"], int)


@pytest.mark.parametrize("choice", ["required", "set_timer", "light"])
async def test_a_forced_call_fits_its_schema(llm: LlamaLlm, choice: str) -> None:
    asked = question(
        "Set a timer for ten seconds.", tools=(TIMER, LIGHT), tool_choice=choice, max_tokens=80
    )
    out = await ask(llm, asked)
    calls = [frame for frame in out if isinstance(frame, ToolCall)]
    assert text_of(out) == ""
    assert [call.done for call in calls] == [True]
    assert choice in ("required", calls[0].name)
    arguments = json.loads(calls[0].arguments)
    if calls[0].name == "set_timer":
        assert isinstance(arguments["seconds"], int)
    else:
        assert arguments["state"] in ("on", "off")
    done = out[-1]
    assert isinstance(done, Completed)
    assert done.reason == "tool_calls"


async def test_eight_prompts_share_the_steps(llm: LlamaLlm) -> None:
    capitals = {
        "France": "Paris", "Japan": "Tokyo", "Italy": "Rome", "Spain": "Madrid",
        "Germany": "Berlin", "England": "London", "Russia": "Moscow", "Egypt": "Cairo",
    }  # fmt: skip
    order: list[str] = []

    async def one(country: str) -> str:
        said = ""
        async for frame in llm.run(stream(question(f"The capital of {country}?")), Context()):
            if isinstance(frame, TextDelta):
                said += frame.text
                order.append(country)
        return said

    answers = await asyncio.gather(*(one(country) for country in capitals))
    right = sum(city in said for city, said in zip(capitals.values(), answers, strict=True))
    assert right >= 7
    switches = sum(a != b for a, b in pairwise(order))
    assert switches > len(order) / 3


@pytest.mark.parametrize("after", ["the prompt is sent", "three pieces"])
async def test_closing_frees_the_slot_at_once(llm: LlamaLlm, after: str) -> None:
    out = llm.run(stream(STORY), Context())
    if after == "three pieces":
        for _ in range(3):
            await anext(out)
        assert await busy(llm) == 1
    else:
        waiting = asyncio.ensure_future(anext(out))
        await until(llm, slots=1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    await out.aclose()  # type: ignore[attr-defined]
    closed_s = time.monotonic()
    await until(llm, slots=0)
    assert time.monotonic() - closed_s < 2
    assert llm.utilisation() == 0


async def test_a_prompt_that_does_not_fit_names_both_numbers(llm: LlamaLlm) -> None:
    with pytest.raises(BadInput, match=r"the prompt has \d{4} tokens, the context holds 1024"):
        await ask(llm, question("word " * 1500))
    with pytest.raises(DeadlineExceeded):
        late = Context(deadline_s=time.monotonic() - 1)
        await anext(llm.run(stream(STORY), late))


async def test_images_are_refused_by_a_model_that_does_not_see(llm: LlamaLlm) -> None:
    seen = Message("user", "What is this?", images=(ImagePart(b"\x89PNG"),))
    with pytest.raises(BadInput, match="reads no images"):
        await ask(llm, Prompt((seen,)))


async def test_strangers_stay_out(llm: LlamaLlm) -> None:
    async with httpx.AsyncClient(base_url=child(llm).address) as http:
        answer = await http.post("/v1/chat/completions", json={"messages": []})
    assert answer.status_code == 401
    assert child(llm).address.startswith("http://127.0.0.1:")


async def test_a_process_that_dies_is_named_and_started_again() -> None:
    llm = LlamaLlm(Setup("llm", options={"context_tokens": 512, "parallel": 1}))
    await llm.load()
    process = child(llm)._process
    assert process is not None
    out = llm.run(stream(STORY), Context())
    await anext(out)
    process.kill()
    with pytest.raises(ComponentFailed, match="starts it again"):
        async for _ in out:
            pass
    assert "Paris" in text_of(await ask(llm, question("What is the capital of France?")))
    await llm.close()


async def test_waiting_threads_sleep(llm: LlamaLlm) -> None:
    process = child(llm)._process
    assert process is not None
    engine = psutil.Process(process.pid)
    assert engine.environ()["GOMP_SPINCOUNT"] == "0"
    await asyncio.sleep(0.3)
    before_s = sum(engine.cpu_times()[:2])
    await asyncio.sleep(0.5)
    assert sum(engine.cpu_times()[:2]) - before_s < 0.05


async def test_closing_ends_the_process_and_is_repeatable() -> None:
    before = {task.get_name() for task in asyncio.all_tasks()}
    llm = LlamaLlm(Setup("llm", options={"context_tokens": 512, "parallel": 1}))
    await llm.load()
    process = child(llm)._process
    assert process is not None
    await llm.close()
    await llm.close()
    assert not psutil.pid_exists(process.pid)
    assert {task.get_name() for task in asyncio.all_tasks()} == before


async def test_a_broken_model_is_refused_with_the_engines_words(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\0" * 64)
    llm = LlamaLlm(Setup("llm", model=str(broken)))
    with pytest.raises(ComponentFailed, match=r"llama\.cpp did not start: .*\w"):
        await llm.load()
    await llm.close()
