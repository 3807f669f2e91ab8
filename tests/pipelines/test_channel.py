"""The bounded channel: order, bounds, overflow, and cancelled putters that lose nothing."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.components.errors import Overloaded
from motet.pipelines.channel import Channel


@given(st.integers(1, 5), st.lists(st.integers(0, 3), max_size=40))
def test_nothing_is_lost_or_reordered_when_it_blocks(capacity: int, waits: list[int]) -> None:
    async def scenario() -> list[int]:
        channel: Channel[int] = Channel(capacity)
        taken: list[int] = []

        async def produce() -> None:
            for number in range(len(waits)):
                assert await channel.put(number)
                assert len(channel) <= capacity
            channel.close()

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            async for number in channel:
                taken.append(number)
                for _ in range(waits[number]):
                    await asyncio.sleep(0)
        return taken

    assert asyncio.run(scenario()) == list(range(len(waits)))


async def test_drop_oldest_keeps_the_newest_and_counts() -> None:
    channel: Channel[int] = Channel(3, "drop_oldest")
    for number in range(10):
        assert channel.offer(number)
    channel.close()
    assert [number async for number in channel] == [7, 8, 9]
    assert channel.dropped == 7


async def test_error_raises_and_names_the_node() -> None:
    channel: Channel[int] = Channel(1, "error", name="asr")
    channel.offer(1)
    with pytest.raises(Overloaded, match="asr: 1 frames wait"):
        channel.offer(2)


async def test_offer_refuses_when_full_or_closed() -> None:
    channel: Channel[int] = Channel(1)
    assert channel.offer(1)
    assert not channel.offer(2)
    channel.close()
    assert not channel.offer(3)
    assert not await channel.put(4)


async def test_a_putter_that_is_cancelled_puts_nothing() -> None:
    channel: Channel[int] = Channel(1)
    channel.offer(0)
    first = asyncio.create_task(channel.put(1))
    second = asyncio.create_task(channel.put(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    assert await anext(channel) == 0
    assert await second
    assert await anext(channel) == 2


async def test_room_that_comes_free_is_theirs_who_wait_for_it() -> None:
    channel: Channel[int] = Channel(1)
    channel.offer(0)
    waiting = asyncio.create_task(channel.put(1))
    await asyncio.sleep(0)
    assert await anext(channel) == 0
    assert not channel.offer(2), "`waiting`, which hasn't run since, came first"
    assert await waiting
    assert await anext(channel) == 1


@given(st.integers(1, 3), st.lists(st.integers(0, 4), max_size=30))
def test_several_producers_are_served_in_the_order_they_came(
    capacity: int, takes: list[int]
) -> None:
    """Each item's producer comes one step after the one before; the reader takes when told."""

    async def scenario() -> list[int]:
        channel: Channel[int] = Channel(capacity)
        taken: list[int] = []
        async with asyncio.TaskGroup() as group:
            for number, count in enumerate(takes):
                group.create_task(channel.put(number))
                await asyncio.sleep(0)
                assert len(channel) <= capacity
                for _ in range(min(count, len(channel))):
                    taken.append(await anext(channel))
            while len(taken) < len(takes):
                taken.append(await anext(channel))
        return taken

    assert asyncio.run(scenario()) == list(range(len(takes)))


async def test_close_frees_waiting_putters() -> None:
    channel: Channel[int] = Channel(1)
    channel.offer(0)
    waiting = asyncio.create_task(channel.put(1))
    await asyncio.sleep(0)
    channel.close()
    assert await waiting is False
