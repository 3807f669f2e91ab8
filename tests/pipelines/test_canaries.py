"""Canaries of a pipeline: whom they get, when they are called off, and what they must serve."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from versioned import answer, asked, graph, until
from versionfakes import Tag

from motet.components.errors import ComponentFailed, MotetError, SpecError
from motet.components.frames import End, TextInput
from motet.pipelines import Pipeline, build
from motet.pipelines.canary import CanarySpec
from motet.pipelines.spec import PipelineSpec


@pytest.fixture(autouse=True)
def counted() -> None:
    Tag.closes.clear()


async def test_a_faulty_canary_is_called_off_and_nobody_meets_it_again() -> None:
    async with Pipeline(graph()) as pipeline:
        versions = pipeline.versions
        spec = CanarySpec(share=0.5, max_fault_rate=0.2, min_runs=5)
        versions.begin(await versions.start(graph(tag="new", fails=True)), spec)
        faults = 0
        for _ in range(40):
            try:
                await asked(pipeline)
            except ComponentFailed:
                faults += 1
        assert faults == 5, "five runs are enough to tell, and more are too many"
        assert versions.canary is None
        await until(lambda: not versions.retiring)
        told = [event.text for event in versions.events]
        assert (
            "version 2, the canary, was called off: 5 of 5 runs failed (100.0%, allowed 20.0%)"
            in told
        )
        assert Tag.closes == {"b new": 1}


async def test_callers_faults_do_not_call_a_canary_off() -> None:
    async with Pipeline(graph()) as pipeline:
        versions = pipeline.versions
        versions.begin(await versions.start(graph(tag="new")), CanarySpec(share=1, min_runs=1))
        for _ in range(10):
            with pytest.raises(MotetError, match="told to be bad"):
                await asked(pipeline, "bad")
        assert versions.canary is not None
        assert (versions.canary.runs, versions.canary.faults) == (0, 0)


async def test_a_canary_that_is_not_ready_gets_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Pipeline(graph()) as pipeline:
        versions = pipeline.versions
        versions.begin(await versions.start(graph(tag="new")), CanarySpec(share=1))
        assert await asked(pipeline) == "new"
        assert versions.canary is not None
        runtime = versions.canary.runtime
        monkeypatch.setattr(type(runtime), "ready", property(lambda one: one is not runtime))
        assert await asked(pipeline) == "old"


async def test_a_canary_must_serve_the_same_clients() -> None:
    async with Pipeline(graph()) as pipeline:
        spec = {
            "name": "t",
            "nodes": {"a": {"use": "workerfakes:Talk"}},
            "edges": ["input -> a -> output"],
        }
        other = await pipeline.versions.start(build(PipelineSpec.model_validate(spec)))
        with pytest.raises(SpecError) as caught:
            pipeline.versions.begin(other, CanarySpec())
        assert "it takes no TextInput, as the version beside it does" in str(caught.value)
        assert "it makes no Data, as the version beside it does" in str(caught.value)
        await pipeline.versions.discard(other)
        assert await asked(pipeline) == "old"


async def test_a_model_without_a_sign_of_life_counts_against_its_version() -> None:
    """Turns that the conversation gives up on, unlike those that a user interrupts."""
    spec: dict[str, Any] = {
        "name": "t",
        "nodes": {"a": {"use": "versionfakes:Tag"}},
        "edges": ["input -> a -> output"],
        "conversation": {"first_token_timeout_s": 0.05},
    }
    async with Pipeline(build(PipelineSpec.model_validate(spec))) as pipeline:
        version = pipeline.versions.stable
        async with pipeline.session() as session:
            session.start(1, TextInput("hold"))
            session.interrupt(1)
            assert (version.runs, version.faults) == (0, 0)
            session.start(2, TextInput("hold"))
            await asyncio.sleep(0.06)
            session.interrupt(2)
            assert (version.runs, version.faults) == (1, 1)
            assert (await answer(session, 3))[0][0] == "old"
            async for number, _, frame in session:
                if number == 3 and isinstance(frame, End):
                    break
            assert (version.runs, version.faults) == (2, 1)
