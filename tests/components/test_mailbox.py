"""One place to wait in: order, bounds, time, and nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from motet.components.frames import Frame, TextInput
from motet.components.mailbox import Done, Ended, Mailbox, Tick


async def texts(count: int, *, taken: list[int] | None = None) -> AsyncIterator[Frame]:
    for n in range(count):
        if taken is not None:
            taken.append(n)
        yield TextInput(str(n), n)


async def never() -> AsyncIterator[Frame]:
    await asyncio.Event().wait()
    yield TextInput("")


async def test_frames_come_in_order_and_then_the_end():
    async with Mailbox(texts(100), bound=7) as mailbox:
        got = [await mailbox.get() for _ in range(101)]
    assert [frame.index for frame in got[:-1]] == list(range(100))
    assert isinstance(got[-1], Ended)


async def test_it_reads_no_further_ahead_than_its_bound():
    taken: list[int] = []
    async with Mailbox(texts(100, taken=taken), bound=5) as mailbox:
        await asyncio.sleep(0.01)
        assert len(taken) <= 7
        await mailbox.get()
        await asyncio.sleep(0.01)
        assert len(taken) <= 8


async def test_a_tick_comes_in_time_and_not_before():
    loop = asyncio.get_running_loop()
    async with Mailbox(never()) as mailbox:
        until_s = loop.time() + 0.05
        assert isinstance(await mailbox.get(until_s), Tick)
        assert loop.time() >= until_s
        assert isinstance(await mailbox.get(until_s), Tick)


async def test_frames_that_are_there_come_before_a_tick():
    async with Mailbox(texts(3)) as mailbox:
        await asyncio.sleep(0.01)
        past_s = asyncio.get_running_loop().time() - 1
        kinds = [type(await mailbox.get(past_s)) for _ in range(4)]
        assert kinds == [TextInput, TextInput, TextInput, Ended]
        assert isinstance(await mailbox.get(past_s), Tick)


async def test_work_reports_its_end_with_its_result_or_error():
    async def work(outcome: object) -> object:
        await asyncio.sleep(0.001)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async with Mailbox(never()) as mailbox:
        mailbox.start(work(7), tag="good")
        mailbox.start(work(ValueError("no")), tag="bad")
        done = {mail.tag: mail.task for mail in [await mailbox.get(), await mailbox.get()]}
    assert done["good"].result() == 7
    assert isinstance(done["bad"].exception(), ValueError)


async def test_cancelled_work_is_silent():
    async with Mailbox(never()) as mailbox:
        task = mailbox.start(asyncio.sleep(60), tag="long")
        await asyncio.sleep(0)
        task.cancel()
        soon_s = asyncio.get_running_loop().time() + 0.02
        assert isinstance(await mailbox.get(soon_s), Tick)


async def test_an_error_of_the_source_comes_behind_its_frames():
    async def broken() -> AsyncIterator[Frame]:
        yield TextInput("first")
        raise ValueError("torn")

    async with Mailbox(broken()) as mailbox:
        await asyncio.sleep(0.01)
        assert isinstance(await mailbox.get(), TextInput)
        with pytest.raises(ValueError, match="torn"):
            await mailbox.get()


@pytest.mark.parametrize("leave", ["normally", "by an error"])
async def test_leaving_it_leaves_no_task_and_closes_the_source(leave: str):
    before, closed = asyncio.all_tasks(), []

    async def source() -> AsyncIterator[Frame]:
        try:
            await asyncio.Event().wait()
            yield TextInput("")
        finally:
            closed.append(True)

    async def use() -> None:
        async with Mailbox(source()) as mailbox:
            mailbox.start(asyncio.sleep(60), tag=1)
            await asyncio.sleep(0)
            if leave == "by an error":
                raise RuntimeError("out")

    if leave == "by an error":
        with pytest.raises(RuntimeError, match="out"):
            await use()
    else:
        await use()
    assert closed == [True]
    assert asyncio.all_tasks() == before


async def test_done_is_told_apart_by_type():
    async with Mailbox(never()) as mailbox:
        task = mailbox.start(asyncio.sleep(0), tag=("one", 1))
        done = await mailbox.get()
    assert isinstance(done, Done)
    assert (done.tag, done.task) == (("one", 1), task)
