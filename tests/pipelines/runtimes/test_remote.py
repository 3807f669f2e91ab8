"""Replicas on other hosts: found as they appear, left as they drain, probed by health."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc
from ports import HOST, OTHER_HOST, free_port
from runtimes import turn

from motet.components.base import Resources
from motet.components.errors import ComponentFailed, MissingRequirement, SpecError
from motet.components.frames import Data, End, Frame, TextInput
from motet.pipelines import Graph, Pipeline, build
from motet.pipelines.runtimes import runtime_of
from motet.pipelines.runtimes.fleet import Fleet
from motet.pipelines.runtimes.mux import MutualTls
from motet.pipelines.runtimes.nodeserver import LIVENESS, READINESS, STARTUP, NodeServer
from motet.pipelines.runtimes.remote import RemoteRuntime
from motet.pipelines.session import Session
from motet.pipelines.spec import PipelineSpec

pytestmark = pytest.mark.timeout(120)
Health = health_pb2.HealthCheckResponse


def graph(use: str = "workerfakes:Worker", **node: Any) -> Graph:
    spec = {"name": "t", "nodes": {"a": {"use": use, **node}}, "edges": ["input -> a -> output"]}
    return build(PipelineSpec.model_validate(spec))


async def ask(session: Session, number: int, text: str) -> list[Frame]:
    session.start(number, TextInput(text))
    return (await turn(session, number))[:-1]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(40):
        while not condition():  # noqa: ASYNC110 - what is awaited is another process
            await asyncio.sleep(0.01)


def start(made: Graph, address: str, **options: Any) -> tuple[NodeServer, asyncio.Task[None]]:
    server = NodeServer(made.nodes["a"], Resources(), grace_s=30.0)
    return server, asyncio.create_task(server.serve(address, signals=False, **options))


async def test_new_replicas_get_runs_and_draining_ones_keep_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, port = graph(scale={"concurrency": 1}), free_port()
    hosts = [HOST]

    async def addresses(self: Fleet) -> list[str]:
        return [f"{host}:{port}" for host in hosts]

    monkeypatch.setattr(Fleet, "_addresses", addresses)
    monkeypatch.setattr("motet.pipelines.runtimes.fleet.LOOK_S", 0.1)
    first, first_task = start(made, f"{HOST}:{port}")
    runtime = RemoteRuntime(made, {"a": f"any:{port}"}, patience_s=40)
    async with Pipeline(made, runtime) as pipeline, pipeline.session() as session:
        session.start(1, TextInput("pid"), TextInput("sleep"))
        assert isinstance((await anext(session))[2], Data)
        second, second_task = start(made, f"{OTHER_HOST}:{port}")
        session.start(2, TextInput("pid"))
        hosts.append(OTHER_HOST)
        assert isinstance((await anext(session))[2], Data), "the new one took the waiting run"
        assert isinstance((await anext(session))[2], End)

        first.drain()
        await until(lambda: runtime.status()[0].replicas[0].state == "draining")
        assert len(await ask(session, 3, "pid")) == 1
        assert not first_task.done(), "it waits for the run that it has"
        session.interrupt(1)
        await first_task
        hosts.remove(HOST)
        assert len(await ask(session, 4, "pid")) == 1
        second.drain()
        await second_task
        await until(lambda: not runtime.ready)


async def test_gateways_that_share_replicas_see_each_others_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, port = graph(scale={"concurrency": 1}), free_port()

    async def addresses(self: Fleet) -> list[str]:
        return [f"{host}:{port}" for host in (HOST, OTHER_HOST)]

    monkeypatch.setattr(Fleet, "_addresses", addresses)
    tasks = [start(made, f"{host}:{port}")[1] for host in (HOST, OTHER_HOST)]
    runtimes = [RemoteRuntime(made, {"a": f"any:{port}"}, patience_s=40) for _ in range(2)]
    async with (
        Pipeline(made, runtimes[0]) as one,
        Pipeline(made, runtimes[1]) as other,
        one.session() as ours,
        other.session() as theirs,
    ):
        await until(lambda: all(len(each.status()[0].replicas) == 2 for each in runtimes))
        pool = runtimes[1]._fleets["a"].pool
        await until(lambda: pool.ready == 2)
        ours.start(1, TextInput("pid"), TextInput("sleep"))
        await anext(ours)
        await until(lambda: sum(each.elsewhere for each in pool.replicas.values()) == 1)
        theirs.start(1, TextInput("pid"), TextInput("sleep"))
        await anext(theirs)
        assert sorted((each.sessions, each.elsewhere) for each in pool.replicas.values()) == [
            (0, 1),
            (1, 0),
        ], "the free one of the two"
        theirs.start(2, TextInput("pid"))
        await until(lambda: len(pool.queue) == 1)
        ours.interrupt(1)
        turn, _, frame = await anext(theirs)
        assert turn == 2, "it waited for the other gateway's run to end"
        assert isinstance(frame, Data)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_conversation_moves_on_when_its_replica_drains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So a rollout waits for the turns that are open, and not for the longest session."""
    spec = {
        "name": "t",
        "nodes": {"a": {"use": "workerfakes:Worker"}, "llm": {"use": "workerfakes:Talk"}},
        "edges": ["input -> a -> output", "conversation -> llm -> output"],
        "conversation": {},
    }
    made, port, other = build(PipelineSpec.model_validate(spec)), free_port(), free_port()
    hosts = [HOST]

    async def addresses(self: Fleet) -> list[str]:
        if self.node.name == "llm":
            return [f"{HOST}:{other}"]
        return [f"{host}:{port}" for host in hosts]

    monkeypatch.setattr(Fleet, "_addresses", addresses)
    monkeypatch.setattr("motet.pipelines.runtimes.fleet.LOOK_S", 0.1)
    model = NodeServer(made.nodes["llm"], Resources(), grace_s=5.0)
    model_task = asyncio.create_task(model.serve(f"{HOST}:{other}", signals=False))
    first, first_task = start(made, f"{HOST}:{port}")
    runtime = RemoteRuntime(made, {"a": "any:1", "llm": "any:1"}, patience_s=40)
    async with Pipeline(made, runtime) as pipeline, pipeline.session() as session:
        await session.send(TextInput("one"))
        assert await anext(session) == (0, "a", TextInput("one"))
        second, second_task = start(made, f"{OTHER_HOST}:{port}")
        hosts.append(OTHER_HOST)
        await until(lambda: len(runtime.status()[0].replicas) == 2)
        first.drain()
        await asyncio.wait_for(first_task, 10)
        await session.send(TextInput("two"))
        assert await anext(session) == (0, "a", TextInput("two")), "the session never noticed"
    second.drain()
    model.drain()
    await asyncio.gather(second_task, model_task)


async def test_replicas_show_a_certificate_for_the_name_they_are_found_by(tmp_path: Path) -> None:
    """Not for their addresses, which are their own and new with each of them."""
    authority, made, port = trustme.CA(), graph(), free_port()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    pair = authority.issue_cert("localhost")
    pair.private_key_pem.write_to_path(tmp_path / "tls.key")
    pair.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    server = NodeServer(made.nodes["a"], Resources(), tls=MutualTls.of(tmp_path))
    task = asyncio.create_task(server.serve(f"127.0.0.1:{port}", signals=False))
    runtime = runtime_of("remote", made, targets=[f"a=localhost:{port}"], tls_dir=tmp_path)
    async with Pipeline(made, runtime) as pipeline, pipeline.session() as session:
        assert len(await ask(session, 1, "pid")) == 1
    server.drain()
    await task


async def test_health_tells_starting_serving_and_draining_apart() -> None:
    made = graph("workerfakes:Loads", options={"load_s": 1.5})
    port, health_port = free_port(), free_port()
    address = f"{HOST}:{health_port}"
    server, task = start(made, f"{HOST}:{port}", health_address=address)
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)

        async def status(service: str) -> int:
            request = health_pb2.HealthCheckRequest(service=service)
            return (await stub.Check(request, wait_for_ready=True, timeout=20)).status

        assert await status(LIVENESS) == Health.SERVING
        assert await status(STARTUP) == await status(READINESS) == Health.NOT_SERVING
        async with asyncio.timeout(20):
            async for told in stub.Watch(health_pb2.HealthCheckRequest(service=STARTUP)):
                if told.status == Health.SERVING:
                    break
        assert await status(READINESS) == Health.SERVING
        targets = [f"a={HOST}:{port}"]
        runtime = runtime_of("remote", made, targets=targets)
        async with Pipeline(made, runtime) as pipeline, pipeline.session() as session:
            session.start(1, TextInput("pid"), TextInput("sleep"))
            await anext(session)
            server.drain()
            async with asyncio.timeout(20):
                async for told in stub.Watch(health_pb2.HealthCheckRequest(service=READINESS)):
                    if told.status == Health.NOT_SERVING:
                        break
            assert await status(LIVENESS) == Health.SERVING, "draining isn't dead"
    await task


async def test_what_cannot_load_ends_the_server() -> None:
    made = graph("workerfakes:Loads", options={"fails": True})
    _, task = start(made, f"{HOST}:{free_port()}")
    with pytest.raises(MissingRequirement, match="the weights are not there"):
        await task


async def test_what_cannot_listen_leaves_no_server_behind() -> None:
    made, port, other = graph(), free_port(), free_port()
    with socket.socket() as taken:
        taken.bind((HOST, port))
        taken.listen()
        for address, health in ((port, other), (other, port)):
            _, task = start(made, f"{HOST}:{address}", health_address=f"{HOST}:{health}")
            with pytest.raises(ComponentFailed, match=f"can't listen on {HOST}:{port}"):
                await task
            with socket.socket() as one:
                one.bind((HOST, other))


async def test_nobody_there_is_said_in_time() -> None:
    made = graph()
    with pytest.raises(ComponentFailed, match=r"no replica at [\d.]+:\d+ in 0\.3 s"):
        await RemoteRuntime(made, {"a": f"{HOST}:{free_port()}"}, patience_s=0.3).start()


async def test_another_kind_of_port_is_told_from_a_replica_that_is_late() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port(f"{HOST}:0")
    await server.start()
    with pytest.raises(ComponentFailed, match=f"{HOST}:{port} is no hop: it speaks HTTP/2"):
        await RemoteRuntime(graph(), {"a": f"{HOST}:{port}"}, patience_s=1.5).start()
    await server.stop(0)


def test_targets_must_be_those_of_the_nodes() -> None:
    with pytest.raises(SpecError) as caught:
        runtime_of("remote", graph(), targets=["b=host:1"])
    assert [flaw.path for flaw in caught.value.flaws] == ["nodes.a", "targets.b"]


async def test_the_command_drains_at_sigterm(tmp_path: Path) -> None:
    made, port = graph(), free_port()
    file = tmp_path / "t.yaml"
    file.write_text(
        "name: t\nnodes: {a: {use: 'workerfakes:Worker'}}\nedges: [input -> a -> output]"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = ["-P", "-m", "motet", "node", str(file), "a", "--address", f"{HOST}:{port}"]
    process = await asyncio.create_subprocess_exec(sys.executable, *command, env=env)
    runtime = RemoteRuntime(made, {"a": f"{HOST}:{port}"}, patience_s=60)
    async with Pipeline(made, runtime) as pipeline, pipeline.session() as session:
        session.start(1, TextInput("pid"), TextInput("nap"), TextInput("nap"))
        assert isinstance((await anext(session))[2], Data)
        process.send_signal(signal.SIGTERM)
        got = [(await anext(session))[2] for _ in range(3)]
        assert got == [TextInput("nap"), TextInput("nap"), End()], "what ran was finished"
        assert await asyncio.wait_for(process.wait(), 40) == 0
