"""Faults that users of other servers report, each as a test of its class, on every runtime.

Those that are tested elsewhere:

| fault | test |
|---|---|
| replicas start and stop again and again when the delay is shorter than the window |
  `test_scaling.test_a_delay_shorter_than_the_window_does_not_flap`, `..._sawtooth_...` |
| a run cancelled while it is queued stays counted |
  `test_behaviour.test_a_run_cancelled_in_the_queue_leaves_no_trace` |
| a new version of a pipeline cuts what runs |
  `test_rollout.test_every_door_follows_a_reload_and_open_sessions_stay`,
  `test_deploy.test_sessions_outlive_a_rollout` |
| SIGTERM cuts open sessions | `test_serve.test_sigterm_lets_a_running_answer_end_...`,
  `test_remote.test_the_command_drains_at_sigterm` |
| a busy replica is the victim | `test_scaling.test_victims_are_...`,
  `test_workers.test_load_grows_it_and_only_idle_replicas_go`, `test_podcost` |
| the client is gone and the engine works on |
  `test_hop.test_leaving_early_cancels_the_run_...`, `test_image.test_work_stops_when_...`,
  `test_images.test_hanging_up_ends_the_work_...`, `test_rpc.test_..._a_cancelled_call_...` |
| most replicas are idle while one has a queue |
  `test_pool.test_two_choices_keep_late_heads_from_running_to_one_replica` |
| all sessions go to the replica that was there first |
  `test_remote.test_new_replicas_get_runs_...`, `test_pool.test_a_new_replica_takes_queued_...` |
| a crashed replica gets runs until it is noticed, or the server says that it is well |
  `test_workers.test_a_dead_replica_fails_its_runs_alone_...`, `..._readiness_goes_...` |
| workers outlive their parent | `test_workers.test_no_worker_outlives_its_parent`, also busy |
| an edge that leads nowhere, a setting with a typo |
  `test_validate.test_all_faults_come_at_once_with_their_lines` |
| a message above a limit fails unclearly or again and again |
  `test_behaviour.test_a_five_mebibyte_picture_goes_through`, `test_hop.test_too_large_...` |
| something on the way keeps the stream until it is whole | below, and
  `test_rpc.test_speech_begins_before_the_text_has_ended` |
| the first request to a component at zero waits for the next look at the load |
  `test_workers.test_to_zero_and_the_first_run_wakes_it` |
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from runtimes import graph, idle, turn, until

from motet.components.base import Context
from motet.components.frames import Data, End, Fault, Frame, TextInput
from motet.pipelines import Pipeline
from motet.pipelines.runtimes.mux import Hop, HopServer
from motet.pipelines.runtimes.workers import WorkersRuntime

pytestmark = pytest.mark.timeout(180)
WORKER = "workerfakes:Worker"
CHAIN = (dict.fromkeys("abc", WORKER), ["input -> a -> b -> c -> output"])
ONE = ({"a": WORKER}, ["input -> a -> output"])


async def test_a_hundred_abandoned_streams_leave_the_counts_at_zero(
    serve: Callable[..., Any],
) -> None:
    async with serve(*ONE, scale={"concurrency": 4}) as (pipeline, session):
        for number in range(1, 101):
            session.start(number, TextInput("first"), TextInput("sleep"))
            if number % 3 == 0:
                async with asyncio.timeout(40):
                    while (await anext(session))[:2] != (number, "a"):
                        pass
            session.interrupt(number)
        await until(lambda: idle(pipeline))
        session.start(101, TextInput("well"))
        assert await turn(session, 101) == [TextInput("well"), End()]


async def test_a_full_queue_in_the_middle_answers_everybody(serve: Callable[..., Any]) -> None:
    nodes = {"b": {"scale": {"concurrency": 1}, "queue": {"bound": 1}}}
    async with serve(*CHAIN, nodes=nodes) as (pipeline, session):
        for number in range(1, 11):
            session.start(number, TextInput("nap"))
        frames: dict[int, list[Frame]] = {}
        async with asyncio.timeout(60):
            while sum(End() in found for found in frames.values()) < 10:
                number, _, frame = await anext(session)
                frames.setdefault(number, []).append(frame)
        answered = [found for found in frames.values() if found == [TextInput("nap"), End()]]
        refused = [found[0] for found in frames.values() if found not in answered]
        assert len(answered) >= 2
        assert {(fault.node, fault.code) for fault in refused if isinstance(fault, Fault)} == {
            ("b", "overloaded")
        }
        assert len(answered) + len(refused) == 10
        await until(lambda: idle(pipeline))


async def test_a_place_that_was_left_in_the_middle_has_nothing_of_its_last_session(
    serve: Callable[..., Any],
) -> None:
    async with serve(*ONE, scale={"concurrency": 1}) as (pipeline, session):
        for number in range(1, 8):
            session.start(number, TextInput("flood"))
            async with asyncio.timeout(40):
                while (await anext(session))[:2] != (number, "a"):
                    pass
            session.interrupt(number)
            name = f"other {number}"
            async with pipeline.session(session_id=name, key="k2") as other:
                mine = [TextInput(f"{name} {index}", index) for index in range(20)]
                other.start(1, TextInput("context"), *mine)
                assert await turn(other, 1) == [Data([name, 1, "k2", 0]), *mine, End()]


async def test_what_is_there_comes_out_before_the_rest_is_made(serve: Callable[..., Any]) -> None:
    async with serve(*CHAIN) as (_, session):
        session.open(1)
        for text in ("first", "second"):
            await session.send(TextInput(text), turn=1)
            async with asyncio.timeout(40):
                assert await anext(session) == (1, "c", TextInput(text)), "and the input is open"
        session.finish(1)
        assert await turn(session, 1) == [End()]


@pytest.mark.slow
async def test_a_load_that_goes_on_while_replicas_go_loses_nothing() -> None:
    scale = {"max_replicas": 4, "concurrency": 1, "window_s": 0.5, "scale_down_delay_s": 0.3}
    made = WorkersRuntime(graph(*ONE, scale=scale), drain_s=5.0)

    def ready() -> int:
        return sum(one.state == "ready" for one in made.status()[0].replicas)

    async def work(until_ready: int) -> int:
        """Request after request until no more replicas are left; how many were answered."""
        number = 0
        async with pipeline.session() as session:
            while ready() > until_ready:
                number += 1
                session.start(number, TextInput(f"{number}"))
                assert await turn(session, number) == [TextInput(f"{number}"), End()]
        return number

    async with Pipeline(made.graph, made) as pipeline:
        async with pipeline.session() as session:
            for number in range(1, 5):
                session.start(number, TextInput("sleep"))
            await until(lambda: ready() == 4, seconds=60)
        # Those are gone; two go on while two of the four replicas are taken away, then one.
        assert all(await asyncio.gather(work(2), work(2)))
        assert await work(1)
        assert made.status()[0].refused == 0


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
async def test_eight_hundred_calls_four_at_a_time_on_one_connection(
    tmp_path: Path, tcp: bool
) -> None:
    async def echo(node: str, frames: AsyncIterator[Frame], _: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            yield frame

    async def source(frame: Frame) -> AsyncIterator[Frame]:
        yield frame

    async def calls(caller: int) -> None:
        for number in range(200):
            sent = Data([caller, number])
            answers = hop.link.calls.call("n", source(sent), Context("s"))
            assert [frame async for frame in answers] == [sent]

    server = HopServer(echo)
    address = await server.start("127.0.0.1:0" if tcp else f"unix:{tmp_path}/hop")
    async with Hop(address) as hop:
        await asyncio.gather(*(calls(caller) for caller in range(4)))
        assert hop.link.calls.active == 0
        assert len(server.links) == 1
    await server.stop()
