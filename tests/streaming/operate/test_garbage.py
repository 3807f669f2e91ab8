"""The collector keeps what is loaded out of its way, and gives up what is not needed any more."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from motet.streaming.operate import garbage
from motet.streaming.operate.garbage import Settling


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


def test_settling_again_frees_what_was_kept() -> None:
    model = Model()
    garbage.settle_garbage()
    kept = weakref.ref(model)
    del model
    gc.collect()
    assert kept() is not None, "nothing is to be shown: it was freed though it was settled"
    garbage.settle_garbage()
    assert kept() is None


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Is set in place of the collector's work, which takes long where much is loaded."""
    settled = asyncio.Event()
    monkeypatch.setattr(garbage, "settle_garbage", settled.set)
    monkeypatch.setattr(garbage, "LOOK_S", 0.001)
    return settled


async def test_it_waits_for_a_moment_without_sessions(seen: asyncio.Event) -> None:
    sessions = [1]
    settling = Settling(lambda: sessions[0])
    settling.start()
    try:
        settling.ask()
        await asyncio.sleep(0.02)
        assert not seen.is_set()
        sessions[0] = 0
        await asyncio.wait_for(seen.wait(), 20)
    finally:
        await settling.close()


async def test_it_does_not_wait_for_ever(seen: asyncio.Event) -> None:
    settling = Settling(lambda: 1, patience_s=0)
    settling.start()
    try:
        settling.ask()
        await asyncio.wait_for(seen.wait(), 20)
    finally:
        await settling.close()
