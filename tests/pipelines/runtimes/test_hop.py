"""Calls over a link: the same results as in process, and every way a peer can go is told apart."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from motet.components.base import Context
from motet.components.errors import (
    BadInput,
    ComponentFailed,
    DeadlineExceeded,
    MotetError,
    Overloaded,
)
from motet.components.frames import Audio, Data, Frame, Image, TextInput
from motet.components.wire import motet_pb2 as pb
from motet.components.wire.blobs import shared_root
from motet.components.wire.codec import Codec
from motet.pipelines.runtimes.edge import DEFAULT_WINDOW
from motet.pipelines.runtimes.hopsocket import SocketCarrier
from motet.pipelines.runtimes.link import Link, LinkSettings
from motet.pipelines.runtimes.mux import Hop, HopServer, MutualTls

CONTEXT = Context("s1", turn=3, trace="00-aa", key="k")


class Service:
    """What a test's server does with a run, and what it has seen."""

    def __init__(self) -> None:
        self.made = self.running = 0
        self.contexts: list[Context] = []
        self.names: list[str] = []

    async def __call__(
        self, node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncIterator[Frame]:
        self.running += 1
        self.contexts.append(context)
        self.names.append(node)
        try:
            async for frame in frames:
                async for answer in self.answer(frame):
                    self.made += 1
                    yield answer
        finally:
            self.running -= 1

    async def answer(self, frame: Frame) -> AsyncIterator[Frame]:
        match frame:
            case TextInput(text="flood"):
                for index in range(10_000):
                    yield TextInput("x", index)
            case TextInput(text="sleep"):
                await asyncio.sleep(3600)
            case TextInput(text="break"):
                yield frame
                raise RuntimeError("told to break")
            case TextInput(text="refuse"):
                raise Overloaded("full", where="here", retry_after_s=2.5)
            case TextInput(text="bad"):
                raise BadInput("wrong", where="here", param="text")
            case TextInput(text="stop"):
                raise asyncio.CancelledError
            case _:
                yield frame


async def source(*frames: Frame, hold: bool = False) -> AsyncIterator[Frame]:
    for frame in frames:
        yield frame
    if hold:
        await asyncio.sleep(3600)


async def collect(frames: AsyncIterator[Frame]) -> list[Frame]:
    return [frame async for frame in frames]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is awaited is another task's counter
            await asyncio.sleep(0.005)


@asynccontextmanager
async def connected(
    tmp_path: Path, settings: LinkSettings | None = None, *, tcp: bool = False
) -> AsyncIterator[tuple[Hop, Service, HopServer]]:
    service = Service()
    server = HopServer(service, node="echo", settings=settings)
    address = await server.start("127.0.0.1:0" if tcp else f"unix:{tmp_path}/hop")
    try:
        async with Hop(address, settings=settings) as hop:
            yield hop, service, server
    finally:
        await server.stop()


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
async def test_frames_there_and_back_in_order_with_their_context(tmp_path: Path, tcp: bool) -> None:
    sent = [TextInput(f"t{index}", index) for index in range(200)]
    async with connected(tmp_path, tcp=tcp) as (hop, service, _):
        assert await collect(hop.link.calls.call("n", source(*sent), CONTEXT)) == sent
        assert service.contexts == [CONTEXT]
        assert service.names == ["n"]
        assert hop.link.calls.active == service.running == 0


async def test_many_sessions_share_one_stream(tmp_path: Path) -> None:
    async def one(number: int) -> list[Frame]:
        sent = [Data([number, index]) for index in range(30)]
        return await collect(hop.link.calls.call("n", source(*sent), CONTEXT))

    async with connected(tmp_path) as (hop, _, server):
        results = await asyncio.gather(*(one(number) for number in range(100)))
        assert len(server.links) == 1
        assert hop.link.counters.batches < hop.link.counters.packets / 3
    for number, result in enumerate(results):
        assert [frame.value for frame in result] == [[number, index] for index in range(30)]


@pytest.mark.parametrize("side_bytes", [100, 1_400])
async def test_pictures_of_any_size_travel_and_shared_memory_is_freed(
    tmp_path: Path, side_bytes: int
) -> None:
    pixels = np.random.default_rng(3).integers(0, 255, (side_bytes, side_bytes, 3), np.uint8)
    before = set(shared_root().glob("motet-shm-*/*"))
    async with connected(tmp_path) as (hop, _, _):
        moved = hop.link.counters.bytes
        (answer,) = await collect(hop.link.calls.call("n", source(Image(pixels)), CONTEXT))
        assert isinstance(answer, Image)
        np.testing.assert_array_equal(answer.pixels, pixels)
        assert (hop.link.counters.bytes - moved > pixels.nbytes) == (pixels.nbytes < 65_536)
        left = set(shared_root().glob("motet-shm-*/*")) - before
        assert {path.name for path in left} <= {"lock"}


async def test_a_picture_over_tcp_goes_on_the_stream(tmp_path: Path) -> None:
    pixels = np.zeros((1400, 1300, 3), np.uint8)
    async with connected(tmp_path, tcp=True) as (hop, _, _):
        (answer,) = await collect(hop.link.calls.call("n", source(Image(pixels)), CONTEXT))
        assert isinstance(answer, Image)
        assert answer.pixels.shape == pixels.shape
        assert hop.link.counters.bytes > pixels.nbytes


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
async def test_too_large_a_frame_fails_its_call_alone(tmp_path: Path, tcp: bool) -> None:
    settings = LinkSettings(max_message_bytes=100_000)
    async with connected(tmp_path, settings, tcp=tcp) as (hop, _, _):
        calls = hop.link.calls
        other = calls.call("n", source(TextInput("a"), hold=True), CONTEXT)
        assert await anext(other) == TextInput("a")
        big = Audio(np.zeros(50_001, np.int16), 16_000)
        with pytest.raises(BadInput, match="100002 bytes; the limit is 100000"):
            await collect(calls.call("n", source(big), CONTEXT))
        with pytest.raises(BadInput, match=r"TextInput of 1000\d\d bytes; the limit is 100000"):
            await collect(calls.call("n", source(TextInput("x" * 100_000)), CONTEXT))
        await other.aclose()
        assert await collect(calls.call("n", source(TextInput("b")), CONTEXT)) == [TextInput("b")]


async def test_a_slow_reader_stops_the_producer_at_the_window(tmp_path: Path) -> None:
    async with connected(tmp_path) as (hop, service, _):
        answers = hop.link.calls.call("n", source(TextInput("flood")), CONTEXT)
        await anext(answers)
        await asyncio.sleep(0.1)
        assert service.made <= 1 + DEFAULT_WINDOW + DEFAULT_WINDOW // 2 + 1
        others = [TextInput(f"{index}", index) for index in range(50)]
        assert await collect(hop.link.calls.call("n", source(*others), CONTEXT)) == others
        await answers.aclose()
        await until(lambda: service.running == 0)


async def test_a_slow_component_stops_the_caller_at_the_window(tmp_path: Path) -> None:
    pulled = 0

    async def frames() -> AsyncIterator[Frame]:
        nonlocal pulled
        while True:
            pulled += 1
            yield TextInput("sleep")

    async with connected(tmp_path) as (hop, _, _):
        answers = hop.link.calls.call("n", frames(), CONTEXT, window=3)
        waiting = asyncio.create_task(anext(answers))
        await asyncio.sleep(0.1)
        assert pulled <= 5
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_small_window_never_gets_stuck(tmp_path: Path) -> None:
    sent = [TextInput(f"t{index}", index) for index in range(40)]
    async with connected(tmp_path) as (hop, _, _):
        answers = hop.link.calls.call("n", source(*sent), CONTEXT, window=1)
        assert await collect(answers) == sent


async def test_leaving_early_cancels_the_run_even_before_it_began(tmp_path: Path) -> None:
    async with connected(tmp_path) as (hop, service, _):
        for give_s in (0.0, 0.05):
            answers = hop.link.calls.call("n", source(TextInput("sleep")), CONTEXT)
            waiting = asyncio.create_task(anext(answers))
            await asyncio.sleep(give_s)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await asyncio.sleep(0.05)
            await until(lambda: service.running == 0)
            assert hop.link.calls.active == 0


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("break", ComponentFailed, "RuntimeError: told to break"),
        ("refuse", Overloaded, "here: full"),
        ("bad", BadInput, "here: wrong"),
    ],
)
async def test_errors_arrive_as_they_were_raised_behind_the_frames_before_them(
    tmp_path: Path, text: str, kind: type[MotetError], words: str
) -> None:
    got: list[Frame] = []
    async with connected(tmp_path) as (hop, _, _):
        with pytest.raises(kind, match=words) as caught:
            async for frame in hop.link.calls.call(
                "n", source(TextInput("a"), TextInput("b"), TextInput(text)), CONTEXT
            ):
                await asyncio.sleep(0.01)
                got.append(frame)
        assert got[:2] == [TextInput("a"), TextInput("b")]
        if isinstance(caught.value, Overloaded):
            assert caught.value.retry_after_s == 2.5
        if isinstance(caught.value, BadInput):
            assert caught.value.param == "text"


async def test_a_deadline_ends_the_call_and_the_run(tmp_path: Path) -> None:
    context = Context("s", deadline_s=time.monotonic() + 0.1)
    async with connected(tmp_path) as (hop, service, _):
        with pytest.raises(DeadlineExceeded):
            await collect(hop.link.calls.call("n", source(TextInput("sleep")), context))
        await until(lambda: service.running == 0)
        left = service.contexts[0].deadline_s
        assert left is not None
        assert abs(left - time.monotonic()) < 0.5


async def test_an_error_of_the_callers_frames_ends_the_run(tmp_path: Path) -> None:
    async def frames() -> AsyncIterator[Frame]:
        yield TextInput("a")
        raise RuntimeError("the microphone broke")

    async with connected(tmp_path) as (hop, service, _):
        with pytest.raises(MotetError, match="the microphone broke"):
            await collect(hop.link.calls.call("n", frames(), CONTEXT))
        await until(lambda: service.running == 0)


async def test_a_server_that_stops_is_no_end_of_the_answers(tmp_path: Path) -> None:
    async with connected(tmp_path) as (hop, service, server):
        answers = hop.link.calls.call("n", source(TextInput("a"), hold=True), CONTEXT)
        assert await anext(answers) == TextInput("a")
        await server.stop()
        with pytest.raises(ComponentFailed):
            await anext(answers)
        await until(lambda: service.running == 0)
        with pytest.raises(MotetError):
            await collect(hop.link.calls.call("n", source(), CONTEXT))


async def test_nobody_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ComponentFailed, match="unavailable"):
        await Hop(f"unix:{tmp_path}/nobody").open()


HEAD = struct.Struct("<I")


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (HEAD.pack(2**31), "a batch of 2147483648 bytes was announced"),
        (HEAD.pack(4) + b"\xff\xff\xff\xff", "connection broke: Error parsing message"),
        (HEAD.pack(9) + b"half", None),
    ],
)
async def test_what_is_no_batch_ends_that_connection_alone(
    tmp_path: Path, sent: bytes, words: str | None
) -> None:
    async with connected(tmp_path) as (hop, _, server):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "hop")
        await until(lambda: len(server.links) == 2)
        writer.write(sent)
        writer.write_eof()
        batches = [
            batch async for batch in SocketCarrier(reader, writer, most_bytes=1000).batches()
        ]
        told = [packet.abort.message for batch in batches for packet in batch.packets][-1]
        assert (words or "closed the connection without a goodbye") in told
        writer.close()
        await until(lambda: len(server.links) == 1)
        assert await collect(hop.link.calls.call("n", source(TextInput("a")), CONTEXT)) == [
            TextInput("a")
        ]


async def test_a_peer_that_reads_no_more_does_not_keep_the_server(tmp_path: Path) -> None:
    service = Service()
    server = HopServer(service)
    await server.start(f"unix:{tmp_path}/hop")
    _, writer = await asyncio.open_unix_connection(tmp_path / "hop")
    writer.transport.pause_reading()
    opened = pb.Packet(call=1, open=pb.Open(node="n", window=10_000))
    flood = pb.Packet(call=1, sequence=1)
    Codec().encode(Data("x" * 400_000), flood.frame)
    hello = pb.Packet(hello=pb.Hello(version=1, window=10_000, max_message_bytes=2**20))
    batch = pb.Batch(packets=[hello, opened, flood]).SerializeToString()
    writer.write(HEAD.pack(len(batch)) + batch)
    await until(lambda: service.made == 1)
    async with asyncio.timeout(20):
        await server.stop()
    writer.close()


async def test_certificates_and_more_services_need_a_tcp_address(tmp_path: Path) -> None:
    tls = MutualTls(tmp_path, tmp_path, tmp_path)
    with pytest.raises(BadInput, match="stays on this host"):
        Hop(f"unix:{tmp_path}/hop", tls=tls)
    with pytest.raises(BadInput, match="stays on this host"):
        await HopServer(Service(), tls=tls).start(f"unix:{tmp_path}/hop")
    with pytest.raises(BadInput, match="give HOST:PORT"):
        await HopServer(Service()).start(f"unix:{tmp_path}/hop", also=print)


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


async def test_between_hosts_both_ends_show_a_certificate(tmp_path: Path) -> None:
    trustme = pytest.importorskip("trustme")

    def files(name: str, authority: object) -> MutualTls:
        folder = tmp_path / name
        folder.mkdir()
        pair = authority.issue_cert("localhost")  # type: ignore[attr-defined]
        authority.cert_pem.write_to_path(folder / "ca")  # type: ignore[attr-defined]
        pair.private_key_pem.write_to_path(folder / "key")
        pair.cert_chain_pems[0].write_to_path(folder / "cert")
        return MutualTls(folder / "ca", folder / "cert", folder / "key")

    ours, others = trustme.CA(), trustme.CA()
    server = HopServer(Service(), tls=files("server", ours))
    port = (await server.start("localhost:0")).rpartition(":")[2]
    async with Hop(f"localhost:{port}", tls=files("client", ours)) as hop:
        answer = await collect(hop.link.calls.call("n", source(TextInput("a")), CONTEXT))
        assert answer == [TextInput("a")]
    # By an address that the certificate doesn't know, as a replica has one.
    known = replace(files("known", ours), name="localhost")
    async with Hop(f"127.0.0.1:{port}", tls=known) as hop:
        answer = await collect(hop.link.calls.call("n", source(TextInput("b")), CONTEXT))
        assert answer == [TextInput("b")]
    for name in (None, "other.svc"):
        with pytest.raises(MotetError):
            await Hop(f"127.0.0.1:{port}", tls=replace(known, name=name)).open()
    stranger = files("stranger", others)
    mixed = MutualTls(tmp_path / "client/ca", stranger.certificate, stranger.key)
    for tls in (None, stranger, mixed):
        with pytest.raises(MotetError):
            await Hop(f"localhost:{port}", tls=tls).open()
    await server.stop()
