"""The link by itself, joined in memory: every way a peer can go is told apart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hops import CONTEXT, Service, source

from motet.components.errors import ComponentFailed, MotetError
from motet.components.frames import TextInput
from motet.components.wire import motet_pb2 as pb
from motet.pipelines.runtimes.link import Link, LinkSettings


class Wire:
    """Two links joined in memory, with a hand on what travels between them."""

    def __init__(self) -> None:
        self.queues: tuple[asyncio.Queue[bytes | None], ...] = (asyncio.Queue(), asyncio.Queue())
        self.stopped = False

    async def write(self, side: int, data: bytes) -> None:
        if not self.stopped:
            self.queues[side].put_nowait(data)

    async def read(self, side: int) -> AsyncIterator[pb.Batch]:
        while (data := await self.queues[1 - side].get()) is not None:
            yield pb.Batch.FromString(data)

    def run(self, side: int, link: Link) -> asyncio.Task[None]:
        return asyncio.create_task(link.run(lambda d: self.write(side, d), self.read(side)))


async def pair(settings: LinkSettings | None = None) -> tuple[Wire, Link, Link, Service]:
    service, wire = Service(), Wire()
    client, server = Link(settings=settings), Link(handler=service, settings=settings)
    wire.tasks = [wire.run(0, client), wire.run(1, server)]  # type: ignore[attr-defined]
    await client.greeted()
    return wire, client, server, service


async def test_a_dead_peer_is_told_from_a_finished_one() -> None:
    wire, client, _, service = await pair()
    answers = client.calls.call("n", source(TextInput("a"), hold=True), CONTEXT)
    assert await anext(answers) == TextInput("a")
    for queue in wire.queues:
        queue.put_nowait(None)
    with pytest.raises(ComponentFailed, match="without a goodbye"):
        await anext(answers)
    results = await asyncio.gather(*wire.tasks, return_exceptions=True)
    assert all(isinstance(result, ComponentFailed) for result in results)
    assert service.running == 0


async def test_a_peer_that_stands_still_is_given_up() -> None:
    wire, client, _, service = await pair(LinkSettings(heartbeat_s=0.02, patience_s=0.2))
    answers = client.calls.call("n", source(TextInput("a"), hold=True), CONTEXT)
    await anext(answers)
    await asyncio.sleep(0.4)
    assert client.calls.active == 1, "heartbeats keep an idle link alive"
    wire.stopped = True
    with pytest.raises(ComponentFailed, match="said nothing for"):
        await anext(answers)
    await asyncio.gather(*wire.tasks, return_exceptions=True)
    assert service.running == 0


@pytest.mark.parametrize(
    ("packet", "words"),
    [
        (pb.Packet(hello=pb.Hello(version=99)), "speaks version 99"),
        (pb.Packet(call=1, sequence=7, frame=pb.Frame(end=pb.End())), "frame 7 came after"),
        (pb.Packet(call=1, sequence=9, done=pb.Done()), "the end counts 9"),
    ],
)
async def test_a_peer_that_breaks_the_protocol_loses_the_connection(
    packet: pb.Packet, words: str
) -> None:
    wire, client, _, _ = await pair()
    answers = client.calls.call("n", source(hold=True), CONTEXT)
    waiting = asyncio.create_task(anext(answers))
    await asyncio.sleep(0.02)
    await wire.write(1, pb.Batch(packets=[packet]).SerializeToString())
    with pytest.raises(MotetError, match=words):
        await waiting
    for queue in wire.queues:
        queue.put_nowait(None)
    await asyncio.gather(*wire.tasks, return_exceptions=True)


async def test_control_overtakes_frames() -> None:
    link = Link()
    link.push(pb.Packet(call=1, sequence=1).SerializeToString())
    link.push(pb.Packet(call=1, abort=pb.Abort(code="cancelled")).SerializeToString(), control=True)
    batch = pb.Batch.FromString(link._gather())
    assert [packet.WhichOneof("body") for packet in batch.packets] == ["abort", None]
