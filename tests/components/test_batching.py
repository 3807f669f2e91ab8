"""The batcher: batches form, errors reach whom they concern, nobody waits for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from motet.components.batching import Batcher
from motet.components.errors import BadInput, ComponentFailed, Overloaded


class Engine:
    """Doubles numbers; remembers its batches; holds while `gate` is closed."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, items: list[int]) -> Sequence[int | BaseException]:
        self.gate.wait()
        self.batches.append(items)
        if 666 in items:
            raise RuntimeError("engine broke")
        return [BadInput("odd one out") if item == 13 else item * 2 for item in items]


async def test_what_waits_while_the_engine_works_goes_in_one_batch() -> None:
    engine = Engine()
    batcher = Batcher(engine, size=8)
    engine.gate.clear()
    tasks = [asyncio.create_task(batcher(0))]
    await asyncio.sleep(0.01)
    tasks += [asyncio.create_task(batcher(number)) for number in range(1, 12)]
    await asyncio.sleep(0)
    engine.gate.set()
    assert await asyncio.gather(*tasks) == [number * 2 for number in range(12)]
    assert [len(batch) for batch in engine.batches] == [1, 8, 3]
    await batcher.close()


async def test_an_error_as_result_is_one_callers_own() -> None:
    batcher = Batcher(Engine(), size=8, window_ms=5)
    results = await asyncio.gather(*(batcher(n) for n in (1, 13, 2)), return_exceptions=True)
    assert results[0] == 2
    assert results[2] == 4
    assert isinstance(results[1], BadInput)
    await batcher.close()


async def test_an_engine_that_breaks_fails_its_batch_and_serves_the_next() -> None:
    batcher = Batcher(Engine(), size=1, name="asr")
    with pytest.raises(ComponentFailed, match="asr: RuntimeError: engine broke"):
        await batcher(666)
    assert await batcher(4) == 8
    await batcher.close()


async def test_cancelled_callers_leave_the_queue() -> None:
    engine = Engine()
    batcher = Batcher(engine, size=1)
    engine.gate.clear()
    first = asyncio.create_task(batcher(1))
    await asyncio.sleep(0.01)
    gone = asyncio.create_task(batcher(2))
    last = asyncio.create_task(batcher(3))
    await asyncio.sleep(0)
    gone.cancel()
    engine.gate.set()
    assert await asyncio.gather(first, last) == [2, 6]
    assert engine.batches == [[1], [3]]
    await batcher.close()


async def test_the_bound_refuses() -> None:
    engine = Engine()
    batcher = Batcher(engine, size=1, bound=2)
    engine.gate.clear()
    tasks = [asyncio.create_task(batcher(1))]
    await asyncio.sleep(0.01)
    tasks += [asyncio.create_task(batcher(n)) for n in (2, 3)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="2 items wait"):
        await batcher(4)
    engine.gate.set()
    await asyncio.gather(*tasks)
    await batcher.close()


async def test_close_fails_those_who_wait_and_those_being_served() -> None:
    engine = Engine()
    batcher = Batcher(engine, size=1)
    engine.gate.clear()
    tasks = [asyncio.create_task(batcher(n)) for n in range(3)]
    await asyncio.sleep(0.01)
    closing = asyncio.create_task(batcher.close())
    await asyncio.sleep(0.01)
    engine.gate.set()
    await closing
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, ComponentFailed) for result in results)


async def test_items_of_different_keys_keep_apart_and_in_order() -> None:
    engine = Engine()
    batcher = Batcher(engine, size=8, window_ms=5, key=lambda item: item % 2)
    assert await asyncio.gather(*(batcher(n) for n in range(6))) == [0, 2, 4, 6, 8, 10]
    assert engine.batches == [[0, 2, 4], [1, 3, 5]]
    await batcher.close()


async def test_items_of_other_keys_take_no_room_in_a_batch() -> None:
    engine = Engine()
    batcher = Batcher(engine, size=3, window_ms=5, key=lambda item: item % 2)
    await asyncio.gather(*(batcher(n) for n in range(6)))
    assert engine.batches == [[0, 2, 4], [1, 3, 5]]
    await batcher.close()


async def test_a_full_batch_does_not_wait_for_its_window() -> None:
    batcher = Batcher(Engine(), size=2, window_ms=3_600_000)
    tasks = [asyncio.create_task(batcher(1))]
    await asyncio.sleep(0.01)
    tasks.append(asyncio.create_task(batcher(2)))
    async with asyncio.timeout(10):
        assert await asyncio.gather(*tasks) == [2, 4]
    await batcher.close()


async def test_those_who_left_are_no_part_of_the_bound() -> None:
    engine = Engine()
    batcher = Batcher(engine, size=1, bound=2)
    engine.gate.clear()
    first = asyncio.create_task(batcher(1))
    await asyncio.sleep(0.01)
    left = [asyncio.create_task(batcher(n)) for n in (2, 3)]
    await asyncio.sleep(0)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    last = asyncio.create_task(batcher(4))
    await asyncio.sleep(0)
    engine.gate.set()
    assert await asyncio.gather(first, last) == [2, 8]
    await batcher.close()


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_an_engine_that_miscounts_fails_its_batch_and_serves_the_next(count: int) -> None:
    answers = iter([[7] * count, [8, 9]])
    batcher = Batcher(lambda items: next(answers), size=2)
    told = await asyncio.gather(batcher(1), batcher(2), return_exceptions=True)
    assert [type(one) for one in told] == [ComponentFailed] * 2
    assert f"{count} results for 2 items" in str(told[0])
    assert await asyncio.gather(batcher(1), batcher(2)) == [8, 9]
    await batcher.close()
