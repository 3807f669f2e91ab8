"""Calls over a hop: the same results as in process, and each call's end is its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from hops import CONTEXT, collect, connected, source, until

from motet.components.base import Context
from motet.components.errors import (
    BadInput,
    ComponentFailed,
    DeadlineExceeded,
    MotetError,
    Overloaded,
)
from motet.components.frames import Audio, Data, Frame, Image, TextInput
from motet.components.wire.blobs import shared_root
from motet.pipelines.runtimes.edge import DEFAULT_WINDOW
from motet.pipelines.runtimes.link import LinkSettings


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
async def test_frames_there_and_back_in_order_with_their_context(tmp_path: Path, tcp: bool) -> None:
    sent = [TextInput(f"t{index}", index) for index in range(200)]
    async with connected(tmp_path, tcp=tcp) as (hop, service, _):
        assert await collect(hop.link.calls.call("n", source(*sent), CONTEXT)) == sent
        assert service.contexts == [CONTEXT]
        assert service.names == ["n"]
        assert hop.link.calls.active == service.running == 0


async def test_many_sessions_share_one_stream(tmp_path: Path) -> None:
    async def one(number: int) -> list[Frame]:
        sent = [Data([number, index]) for index in range(30)]
        return await collect(hop.link.calls.call("n", source(*sent), CONTEXT))

    async with connected(tmp_path) as (hop, _, server):
        results = await asyncio.gather(*(one(number) for number in range(100)))
        assert len(server.links) == 1
        assert hop.link.counters.batches < hop.link.counters.packets / 3
    for number, result in enumerate(results):
        assert [frame.value for frame in result] == [[number, index] for index in range(30)]


@pytest.mark.parametrize("side_bytes", [100, 1_400])
async def test_pictures_of_any_size_travel_and_shared_memory_is_freed(
    tmp_path: Path, side_bytes: int
) -> None:
    pixels = np.random.default_rng(3).integers(0, 255, (side_bytes, side_bytes, 3), np.uint8)
    before = set(shared_root().glob("motet-shm-*/*"))
    async with connected(tmp_path) as (hop, _, _):
        moved = hop.link.counters.bytes
        (answer,) = await collect(hop.link.calls.call("n", source(Image(pixels)), CONTEXT))
        assert isinstance(answer, Image)
        np.testing.assert_array_equal(answer.pixels, pixels)
        assert (hop.link.counters.bytes - moved > pixels.nbytes) == (pixels.nbytes < 65_536)
        left = set(shared_root().glob("motet-shm-*/*")) - before
        assert {path.name for path in left} <= {"lock"}


async def test_a_picture_over_tcp_goes_on_the_stream(tmp_path: Path) -> None:
    pixels = np.zeros((1400, 1300, 3), np.uint8)
    async with connected(tmp_path, tcp=True) as (hop, _, _):
        (answer,) = await collect(hop.link.calls.call("n", source(Image(pixels)), CONTEXT))
        assert isinstance(answer, Image)
        assert answer.pixels.shape == pixels.shape
        assert hop.link.counters.bytes > pixels.nbytes


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
async def test_too_large_a_frame_fails_its_call_alone(tmp_path: Path, tcp: bool) -> None:
    settings = LinkSettings(max_message_bytes=100_000)
    async with connected(tmp_path, settings, tcp=tcp) as (hop, _, _):
        calls = hop.link.calls
        other = calls.call("n", source(TextInput("a"), hold=True), CONTEXT)
        assert await anext(other) == TextInput("a")
        big = Audio(np.zeros(50_001, np.int16), 16_000)
        with pytest.raises(BadInput, match="100002 bytes; the limit is 100000"):
            await collect(calls.call("n", source(big), CONTEXT))
        with pytest.raises(BadInput, match=r"TextInput of 1000\d\d bytes; the limit is 100000"):
            await collect(calls.call("n", source(TextInput("x" * 100_000)), CONTEXT))
        await other.aclose()
        assert await collect(calls.call("n", source(TextInput("b")), CONTEXT)) == [TextInput("b")]


async def test_a_slow_reader_stops_the_producer_at_the_window(tmp_path: Path) -> None:
    async with connected(tmp_path) as (hop, service, _):
        answers = hop.link.calls.call("n", source(TextInput("flood")), CONTEXT)
        await anext(answers)
        await asyncio.sleep(0.1)
        assert service.made <= 1 + DEFAULT_WINDOW + DEFAULT_WINDOW // 2 + 1
        others = [TextInput(f"{index}", index) for index in range(50)]
        assert await collect(hop.link.calls.call("n", source(*others), CONTEXT)) == others
        await answers.aclose()
        await until(lambda: service.running == 0)


async def test_a_slow_component_stops_the_caller_at_the_window(tmp_path: Path) -> None:
    pulled = 0

    async def frames() -> AsyncIterator[Frame]:
        nonlocal pulled
        while True:
            pulled += 1
            yield TextInput("sleep")

    async with connected(tmp_path) as (hop, _, _):
        answers = hop.link.calls.call("n", frames(), CONTEXT, window=3)
        waiting = asyncio.create_task(anext(answers))
        await asyncio.sleep(0.1)
        assert pulled <= 5
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_small_window_never_gets_stuck(tmp_path: Path) -> None:
    sent = [TextInput(f"t{index}", index) for index in range(40)]
    async with connected(tmp_path) as (hop, _, _):
        answers = hop.link.calls.call("n", source(*sent), CONTEXT, window=1)
        assert await collect(answers) == sent


async def test_leaving_early_cancels_the_run_even_before_it_began(tmp_path: Path) -> None:
    async with connected(tmp_path) as (hop, service, _):
        for give_s in (0.0, 0.05):
            answers = hop.link.calls.call("n", source(TextInput("sleep")), CONTEXT)
            waiting = asyncio.create_task(anext(answers))
            await asyncio.sleep(give_s)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await asyncio.sleep(0.05)
            await until(lambda: service.running == 0)
            assert hop.link.calls.active == 0


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("break", ComponentFailed, "RuntimeError: told to break"),
        ("refuse", Overloaded, "here: full"),
        ("bad", BadInput, "here: wrong"),
    ],
)
async def test_errors_arrive_as_they_were_raised_behind_the_frames_before_them(
    tmp_path: Path, text: str, kind: type[MotetError], words: str
) -> None:
    got: list[Frame] = []
    async with connected(tmp_path) as (hop, _, _):
        with pytest.raises(kind, match=words) as caught:
            async for frame in hop.link.calls.call(
                "n", source(TextInput("a"), TextInput("b"), TextInput(text)), CONTEXT
            ):
                await asyncio.sleep(0.01)
                got.append(frame)
        assert got[:2] == [TextInput("a"), TextInput("b")]
        if isinstance(caught.value, Overloaded):
            assert caught.value.retry_after_s == 2.5
        if isinstance(caught.value, BadInput):
            assert caught.value.param == "text"


async def test_a_deadline_ends_the_call_and_the_run(tmp_path: Path) -> None:
    context = Context("s", deadline_s=time.monotonic() + 0.1)
    async with connected(tmp_path) as (hop, service, _):
        with pytest.raises(DeadlineExceeded):
            await collect(hop.link.calls.call("n", source(TextInput("sleep")), context))
        await until(lambda: service.running == 0)
        left = service.contexts[0].deadline_s
        assert left is not None
        assert abs(left - time.monotonic()) < 0.5


async def test_an_error_of_the_callers_frames_ends_the_run(tmp_path: Path) -> None:
    async def frames() -> AsyncIterator[Frame]:
        yield TextInput("a")
        raise RuntimeError("the microphone broke")

    async with connected(tmp_path) as (hop, service, _):
        with pytest.raises(MotetError, match="the microphone broke"):
            await collect(hop.link.calls.call("n", frames(), CONTEXT))
        await until(lambda: service.running == 0)


async def test_a_server_that_stops_is_no_end_of_the_answers(tmp_path: Path) -> None:
    async with connected(tmp_path) as (hop, service, server):
        answers = hop.link.calls.call("n", source(TextInput("a"), hold=True), CONTEXT)
        assert await anext(answers) == TextInput("a")
        await server.stop()
        with pytest.raises(ComponentFailed):
            await anext(answers)
        await until(lambda: service.running == 0)
        with pytest.raises(MotetError):
            await collect(hop.link.calls.call("n", source(), CONTEXT))
