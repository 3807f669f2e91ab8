"""Continuous batching: answers and faults are those of each request alone."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from running import ask, text_of
from tinyllm import alone, loaded, prompt

from motet.components.errors import ComponentFailed, Overloaded
from motet.components.frames import Completed
from motet.components.llm import hfloop
from motet.components.llm.sampling import Sampler

pytestmark = pytest.mark.timeout(60)


async def test_answers_that_share_steps_are_those_of_generate(model: tuple[Path, Any]) -> None:
    asked = [prompt("ab" * n, max_tokens=4 + 7 * n) for n in range(1, 10)]
    wanted = [alone(*model, one) for one in asked]
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


async def test_who_gave_up_waiting_takes_nobody_elses_place(
    model: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hfloop, "MOST_WAITING", 2)
    async with loaded(model[0], parallel=1, context_tokens=2000) as llm:
        loop = llm.loop
        assert loop is not None

        async def until(waiting: int) -> None:
            async with asyncio.timeout(10):
                while not loop._running or len(loop._waiting) != waiting:  # noqa: ASYNC110 - a thread is awaited
                    await asyncio.sleep(0.005)

        long = asyncio.create_task(ask(llm, prompt("long", max_tokens=1900)))
        await until(0)
        left = [asyncio.create_task(ask(llm, prompt("x"))) for _ in range(2)]
        await until(2)
        with pytest.raises(Overloaded):
            await ask(llm, prompt("x"))
        for one in left:
            one.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        waits = asyncio.create_task(ask(llm, prompt("short", max_tokens=3)))
        await until(1)
        long.cancel()
        async with asyncio.timeout(10):
            assert isinstance((await waits)[-1], Completed)


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
        assert text_of(await ask(llm, prompt("x"))) == alone(*model, prompt("x"))


async def test_a_prompt_that_is_refused_hears_so_in_a_step_that_breaks(
    model: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with loaded(model[0], context_tokens=2000) as llm:
        assert llm.loop is not None
        engine, refused = llm.loop._model, threading.Event()
        real = engine.step
        long = asyncio.create_task(ask(llm, prompt("long", max_tokens=1900)))
        async with asyncio.timeout(10):
            while not llm.loop._running:  # noqa: ASYNC110 - a thread is awaited
                await asyncio.sleep(0.005)

        def embed(*args: Any) -> Any:
            refused.set()
            raise RuntimeError("no such row")

        def step(*args: Any) -> Any:
            if refused.is_set():
                raise RuntimeError("out of memory")
            return real(*args)

        monkeypatch.setattr(engine, "embed", embed)
        monkeypatch.setattr(engine, "step", step)
        async with asyncio.timeout(10):
            with pytest.raises(ComponentFailed, match="no such row"):
                await ask(llm, prompt("x"))
            with pytest.raises(ComponentFailed, match="out of memory"):
                await long


@pytest.mark.parametrize("heat", [0.0, 1e-46, 1e-12])
async def test_a_request_that_cannot_be_sampled_costs_nobody_else(
    model: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch, heat: float
) -> None:
    async with loaded(model[0]) as llm:
        wanted = alone(*model, prompt("ab"))
        assert text_of(await ask(llm, prompt("ab", temperature=heat))) == wanted
        choose = Sampler.choose

        def spoilt(self: Sampler, logits: Any) -> Any:
            return choose(self, logits * float("nan") if self.seed == 5 else logits)

        monkeypatch.setattr(Sampler, "choose", spoilt)
        bad = ask(llm, prompt("x", seed=5, temperature=1.0))
        told, fine = await asyncio.gather(bad, ask(llm, prompt("ab")), return_exceptions=True)
    assert isinstance(told, ComponentFailed)
    assert isinstance(fine, list)
    assert text_of(fine) == wanted
