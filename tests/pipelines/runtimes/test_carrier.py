"""The sockets under a link: other kinds of ports, silence, and certificates."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import grpc
import httpx
import pytest
import trustme
import uvloop
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hops import CONTEXT, Service, collect, connected, source, until

from motet.components.errors import BadInput, ComponentFailed, MotetError
from motet.components.frames import Data, TextInput
from motet.components.wire import motet_pb2 as pb
from motet.components.wire.codec import Codec
from motet.pipelines.runtimes.carrier import GREETING
from motet.pipelines.runtimes.link import LinkSettings
from motet.pipelines.runtimes.mux import Hop, HopServer, MutualTls

HEAD = struct.Struct("<I")
SOON = LinkSettings(patience_s=0.3, heartbeat_s=0.1)


def files(folder: Path, authority: trustme.CA, name: str = "localhost") -> MutualTls:
    """A certificate of this authority, as Kubernetes lays it out."""
    folder.mkdir(exist_ok=True)
    pair = authority.issue_cert(name)
    authority.cert_pem.write_to_path(folder / "ca.crt")
    pair.private_key_pem.write_to_path(folder / "tls.key")
    (folder / "tls.crt").write_bytes(pair.cert_chain_pems[0].bytes())
    return MutualTls.of(folder)


async def echoes(hop: Hop) -> bool:
    frames = [TextInput("a"), TextInput("b")]
    return await collect(hop.link.calls.call("n", source(*frames), CONTEXT)) == frames


@pytest.mark.parametrize("address", ["unix:{}/nobody", "127.0.0.1:1"])
async def test_nobody_there_is_said(tmp_path: Path, address: str) -> None:
    with pytest.raises(ComponentFailed, match=f"unavailable: {address.format(tmp_path)}: "):
        await Hop(address.format(tmp_path)).open()


@pytest.mark.parametrize("address", ["localhost", ":50061", "host:port", "host:65536"])
async def test_what_is_no_address_is_told(address: str) -> None:
    for opening in (Hop(address).open(), HopServer(Service()).start(address)):
        with pytest.raises(BadInput, match="possible: HOST:PORT, unix:PATH"):
            await opening


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (GREETING + HEAD.pack(2**31), "a batch of 2147483648 bytes was announced"),
        (GREETING + HEAD.pack(4) + b"\xff\xff\xff\xff", "broke: Error parsing message"),
        (GREETING + HEAD.pack(9) + b"half", "closed the connection without a goodbye"),
        (b"", "closed without a word"),
        (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", "it speaks HTTP/2, as gRPC does"),
        (b"\x16\x03\x01", "it speaks TLS"),
        (b"ehlo there", "it began with b'ehlo the'"),
    ],
)
async def test_what_is_no_batch_ends_that_connection_alone(
    tmp_path: Path, sent: bytes, words: str
) -> None:
    async with connected(tmp_path) as (hop, _, server):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "hop")
        writer.write(sent)
        writer.write_eof()
        assert await reader.readexactly(len(GREETING)) == GREETING
        told = None
        while head := await reader.read(HEAD.size):
            batch = pb.Batch.FromString(await reader.readexactly(*HEAD.unpack(head)))
            told = batch.packets[-1].abort.message
        assert told is not None
        assert words in told
        writer.close()
        await until(lambda: len(server.links) == 1)
        assert await echoes(hop)


async def grpc_calls(port: int) -> None:
    async with grpc.aio.insecure_channel(f"localhost:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.Check(health_pb2.HealthCheckRequest(), timeout=5)


async def http_calls(port: int) -> None:
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.HTTPError):
            await client.get(f"http://localhost:{port}/")


async def a_hop_with_certificates(port: int, tls: MutualTls | None = None) -> None:
    with pytest.raises(ComponentFailed, match="TLS failed: wrong version number"):
        await Hop(f"localhost:{port}", tls=tls).open()


@pytest.mark.parametrize(
    ("caller", "words"),
    [
        (grpc_calls, "speaks HTTP/2, as gRPC does; health has a port of its own"),
        (http_calls, "speaks HTTP"),
        (a_hop_with_certificates, "speaks TLS; are both sides to show certificates?"),
    ],
)
async def test_what_comes_to_the_wrong_port_is_told_in_the_log(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    caller: Callable[..., Awaitable[None]],
    words: str,
) -> None:
    async with connected(tmp_path, tcp=True) as (hop, _, _):
        port = int(hop.address.rpartition(":")[2])
        if caller is a_hop_with_certificates:
            await caller(port, files(tmp_path, trustme.CA()))
        else:
            await caller(port)
        await until(lambda: words in caplog.text)
        assert hop.address in caplog.text
        assert await echoes(hop)


async def test_a_hop_to_the_wrong_port_says_what_is_there() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("localhost:0")
    await server.start()
    with pytest.raises(MotetError, match="no hop: it speaks HTTP/2, as gRPC does"):
        await Hop(f"localhost:{port}").open()
    await server.stop(0)

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if said := answers.pop():
            writer.write(said)
        else:
            await reader.read()
        writer.close()

    answers = [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"]
    async with await asyncio.start_server(served, "127.0.0.1", 0) as other:
        address = f"127.0.0.1:{other.sockets[0].getsockname()[1]}"
        with pytest.raises(MotetError, match="no hop: it speaks HTTP"):
            await Hop(address).open()
        with pytest.raises(ComponentFailed, match=r"said nothing for 0\.3 s; is it a hop"):
            await Hop(address, settings=SOON).open()


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
    writer.write(GREETING + HEAD.pack(len(batch)) + batch)
    await until(lambda: service.made == 1)
    async with asyncio.timeout(20):
        await server.stop()
    writer.close()


async def test_certificates_need_a_tcp_address(tmp_path: Path) -> None:
    tls = MutualTls(tmp_path, tmp_path, tmp_path)
    with pytest.raises(BadInput, match="stays on this host"):
        Hop(f"unix:{tmp_path}/hop", tls=tls)
    with pytest.raises(BadInput, match="stays on this host"):
        await HopServer(Service(), tls=tls).start(f"unix:{tmp_path}/hop")


async def test_between_hosts_both_ends_show_a_certificate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ours, others = trustme.CA(), trustme.CA()
    server = HopServer(Service(), tls=files(tmp_path / "server", ours))
    port = (await server.start("localhost:0")).rpartition(":")[2]
    known = files(tmp_path / "client", ours)
    async with Hop(f"localhost:{port}", tls=known) as hop:
        assert await echoes(hop)
    # By an address that the certificate doesn't know, as a replica has one.
    async with Hop(f"127.0.0.1:{port}", tls=replace(known, name="localhost")) as hop:
        assert await echoes(hop)
    for name, words in ((None, "IP address mismatch"), ("other.svc", "Hostname mismatch")):
        with pytest.raises(ComponentFailed, match=f"certificate doesn't hold: {words}"):
            await Hop(f"127.0.0.1:{port}", tls=replace(known, name=name)).open()
    stranger = files(tmp_path / "stranger", others)
    with pytest.raises(ComponentFailed, match="certificate doesn't hold: self-signed"):
        await Hop(f"localhost:{port}", tls=stranger).open()
    caplog.clear()
    trusting = replace(stranger, authority=known.authority)
    with pytest.raises(ComponentFailed, match="does it take this side's certificate"):
        await Hop(f"localhost:{port}", tls=trusting).open()
    assert "its certificate doesn't hold" in caplog.text
    caplog.clear()
    with pytest.raises(MotetError, match=r"and without certificates\?|speaks TLS"):
        await Hop(f"localhost:{port}").open()
    assert "TLS failed: wrong version number" in caplog.text
    await server.stop()


def test_certificates_hold_on_the_loop_that_commands_run(tmp_path: Path) -> None:
    """Its handshakes are its own: what asyncio's does, it need not do."""

    async def both() -> None:
        ours = trustme.CA()
        server = HopServer(Service(), tls=files(tmp_path / "server", ours))
        address = await server.start("localhost:0")
        known = files(tmp_path / "client", ours)
        async with Hop(address, tls=known) as hop:
            assert await echoes(hop)
        stranger = replace(files(tmp_path / "other", trustme.CA()), authority=known.authority)
        for tls, words in (
            (stranger, "this side's certificate"),
            (None, "without certificates|speaks TLS"),
        ):
            with pytest.raises(MotetError, match=words):
                await Hop(address, tls=tls).open()
        await server.stop()

    uvloop.run(both())


async def test_renewed_certificates_count_from_the_next_connection_on(tmp_path: Path) -> None:
    tls = files(tmp_path, trustme.CA())
    server = HopServer(Service(), tls=tls)
    port = (await server.start("localhost:0")).rpartition(":")[2]
    async with Hop(f"localhost:{port}", tls=tls) as old:
        files(tmp_path, trustme.CA())
        async with Hop(f"localhost:{port}", tls=tls) as new:
            assert await echoes(new)
        assert await echoes(old)
    await server.stop()


@pytest.mark.parametrize("broken", ["ca.crt", "tls.crt", "tls.key"])
async def test_certificates_that_cannot_be_read_are_named(tmp_path: Path, broken: str) -> None:
    tls = files(tmp_path, trustme.CA())
    (tmp_path / broken).write_text("nothing of use")
    for opening in (
        Hop("localhost:1", tls=tls).open(),
        HopServer(Service(), tls=tls).start("localhost:0"),
    ):
        with pytest.raises(BadInput, match=broken):
            await opening
