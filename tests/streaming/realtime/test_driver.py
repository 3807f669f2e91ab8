"""The driver's clock: it rings while the session lasts, and never after `close`."""

from __future__ import annotations

import asyncio
from typing import Any

from motet.components.errors import BadInput
from motet.components.frames import Frame
from motet.pipelines import Pipeline, build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.realtime.driver import Driver
from motet.streaming.realtime.effects import Effect
from motet.streaming.realtime.outgoing import Outgoing

ECHO = {"name": "echo", "nodes": {"n": {"use": "fakes:Echo"}}, "edges": ["input -> n -> output"]}


class Ticking:
    """A protocol that only wants to be woken, every millisecond."""

    def __init__(self) -> None:
        self.ticks = 0
        self.ticked = asyncio.Event()

    def start(self) -> list[Effect]:
        return []

    def receive(self, message: str | bytes | dict[str, Any], now_s: float) -> list[Effect]:
        return []

    def hear(self, turn: int, node: str, frame: Frame, now_s: float) -> list[Effect]:
        return []

    def refuse(self, error: BadInput) -> list[Effect]:
        return []

    def tick(self, now_s: float) -> list[Effect]:
        self.ticks += 1
        self.ticked.set()
        return []

    def next_deadline(self) -> float:
        return asyncio.get_running_loop().time() + 0.001


async def test_closing_stops_the_clock_however_often_it_is_done() -> None:
    protocol = Ticking()
    async with (
        Pipeline(build(PipelineSpec.model_validate(ECHO))) as pipeline,
        pipeline.session() as session,
    ):
        driver = Driver(protocol, session, Outgoing(), report=lambda _: None, fault=lambda _: None)
        driver.close()
        await driver.start()
        await asyncio.wait_for(protocol.ticked.wait(), 10)
        for _ in range(3):
            driver.close()
        before = protocol.ticks
        await asyncio.sleep(0.05)
        assert protocol.ticks == before
