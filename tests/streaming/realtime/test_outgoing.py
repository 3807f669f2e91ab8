"""What waits for a client that reads slowly: bounded, cut off with its reply, ended in time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from motet.streaming.realtime import outgoing as outlet
from motet.streaming.realtime.outgoing import Closed, Outgoing


def event(size: int) -> dict[str, Any]:
    return {"type": "x", "delta": "a" * size}


async def test_a_slow_reader_slows_the_reply_down() -> None:
    outgoing = Outgoing(soft_bytes=100, hard_bytes=1000, stall_s=0.05)
    outgoing.put(event(50))
    await outgoing.room()
    outgoing.put(event(90))
    waiting = asyncio.create_task(outgoing.room())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await outgoing.take()
    await outgoing.take()
    await waiting


async def test_a_reader_that_takes_nothing_is_given_up() -> None:
    outgoing = Outgoing(soft_bytes=100, hard_bytes=1000, stall_s=0.02)
    outgoing.put(event(200))
    with pytest.raises(Closed) as closed:
        await outgoing.room()
    assert closed.value.code == 1013


async def test_what_waits_for_a_reader_is_bounded_and_its_end_comes_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outlet, "FLUSH_LIMIT_S", 0.01)
    outgoing = Outgoing(soft_bytes=100, hard_bytes=1000)
    for _ in range(100):
        outgoing.put(event(90))
    await outgoing.room()
    with pytest.raises(Closed) as taken:
        await outgoing.take()
    with pytest.raises(Closed) as ended:
        await outgoing.ended()
    assert taken.value.code == ended.value.code == 1013


async def test_audio_that_waits_for_a_slow_reader_is_dropped_when_its_reply_is_cut_off() -> None:
    outgoing = Outgoing(soft_bytes=1000)
    for name in ("r1", "r2"):
        delta = {"type": "response.output_audio.delta", "response_id": name, "delta": "a" * 600}
        outgoing.put(delta)
    waiting = asyncio.create_task(outgoing.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    outgoing.put({"type": "response.done", "response": {"id": "r1", "status": "cancelled"}})
    await waiting
    assert json.loads(await outgoing.take())["response_id"] == "r2"
    assert json.loads(await outgoing.take())["type"] == "response.done"


async def test_an_end_lets_what_came_before_it_out_and_nothing_after() -> None:
    outgoing = Outgoing()
    outgoing.put({"type": "last"})
    outgoing.end(Closed(1000, "bye"))
    outgoing.end(Closed(1011, "again"))
    outgoing.put({"type": "late"})
    assert json.loads(await outgoing.take()) == {"type": "last"}
    for _ in range(2):
        with pytest.raises(Closed) as closed:
            await outgoing.take()
        assert closed.value.code == 1000
