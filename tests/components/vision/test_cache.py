"""The shared cache: made once, pinned in use, bounded, and nobody's cancel is another's."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from motet.components.vision.cache import SharedCache


@dataclass
class Block:
    size_bytes: int


class Maker:
    """Counts what it makes; each takes a while."""

    def __init__(self, size_bytes: int = 10, wait_s: float = 0.02, fails: bool = False) -> None:
        self.made = 0
        self.cancelled = 0
        self.size_bytes = size_bytes
        self.wait_s = wait_s
        self.fails = fails

    async def __call__(self) -> Block:
        self.made += 1
        try:
            await asyncio.sleep(self.wait_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.fails:
            raise ValueError("no")
        return Block(self.size_bytes)


async def get(cache: SharedCache[Block], key: str, make: Maker) -> Block:
    with cache.hold(key, make) as making:
        return await making


async def test_fifty_who_want_the_same_get_one() -> None:
    cache: SharedCache[Block] = SharedCache(100)
    make = Maker()
    found = await asyncio.gather(*(get(cache, "a", make) for _ in range(50)))
    assert make.made == 1
    assert len({id(one) for one in found}) == 1
    assert (cache.hits, cache.misses) == (49, 1)


async def test_the_longest_unused_goes_and_what_is_held_stays() -> None:
    cache: SharedCache[Block] = SharedCache(25)
    with cache.hold("a", Maker()) as held:
        await held
        for key in "bcd":
            await get(cache, key, Maker())
        assert "a" in cache
        assert "d" in cache
        assert "b" not in cache
    assert cache.held_bytes <= 25
    with cache.hold("x", Maker(20)) as one, cache.hold("y", Maker(20)) as two:
        await one
        await two
        assert cache.held_bytes >= 40, "both are in use"
    assert cache.held_bytes <= 25


async def test_without_room_nothing_is_kept() -> None:
    cache: SharedCache[Block] = SharedCache(0)
    make = Maker()
    await get(cache, "a", make)
    await get(cache, "a", make)
    assert make.made == 2
    assert (len(cache), cache.held_bytes) == (0, 0)


async def test_one_who_is_cancelled_leaves_it_to_the_others() -> None:
    cache: SharedCache[Block] = SharedCache(100)
    make = Maker(wait_s=0.05)
    first, second = (asyncio.create_task(get(cache, "a", make)) for _ in range(2))
    await asyncio.sleep(0.01)
    first.cancel()
    assert (await second).size_bytes == 10
    assert (make.made, make.cancelled) == (1, 0)


async def test_when_all_are_cancelled_the_making_stops() -> None:
    cache: SharedCache[Block] = SharedCache(100)
    make = Maker(wait_s=5)
    tasks = [asyncio.create_task(get(cache, "a", make)) for _ in range(3)]
    await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)
    assert (make.cancelled, len(cache)) == (1, 0)


async def test_a_failure_reaches_all_who_waited_and_is_tried_anew() -> None:
    cache: SharedCache[Block] = SharedCache(100)
    bad = Maker(fails=True)
    found = await asyncio.gather(*(get(cache, "a", bad) for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in found] == [ValueError] * 3
    with pytest.raises(ValueError, match="no"):
        await get(cache, "a", bad)
    assert bad.made == 2
    assert (await get(cache, "a", Maker())).size_bytes == 10
