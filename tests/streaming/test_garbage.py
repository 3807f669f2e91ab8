"""The collector keeps what is loaded out of its way, and gives up what is not needed any more."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from motet.streaming.garbage import Settling, settle_garbage


class Model:
    """A model whose parts know each other, as those of PyTorch do."""

    def __init__(self) -> None:
        self.part = self


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def settled() -> weakref.ref[Model]:
    """A model that is not needed any more, after it was settled."""
    model = Model()
    settle_garbage()
    kept = weakref.ref(model)
    del model
    gc.collect()
    assert kept() is not None, "nothing is to be shown: it was freed though it was settled"
    return kept


def test_settling_again_frees_it() -> None:
    kept = settled()
    settle_garbage()
    assert kept() is None


async def test_it_waits_for_a_moment_without_sessions() -> None:
    sessions = [1]
    settling = Settling(lambda: sessions[0])
    settling.start()
    try:
        kept = settled()
        settling.ask()
        for _ in range(5):
            await asyncio.sleep(0)
        assert kept() is not None
        sessions[0] = 0
        async with asyncio.timeout(20):
            while kept() is not None:  # noqa: ASYNC110 - what is awaited is the collector
                await asyncio.sleep(0.01)
    finally:
        await settling.close()


async def test_it_does_not_wait_for_ever() -> None:
    settling = Settling(lambda: 1, patience_s=0)
    settling.start()
    try:
        kept = settled()
        settling.ask()
        async with asyncio.timeout(20):
            while kept() is not None:  # noqa: ASYNC110 - what is awaited is the collector
                await asyncio.sleep(0.01)
    finally:
        await settling.close()
