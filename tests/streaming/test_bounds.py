"""What one client may cost: heads, bodies and standing still are bounded, vanishing is no fault."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, Request

from motet.streaming import connection
from motet.streaming.bodies import Bounded
from motet.streaming.problems import install
from motet.streaming.streamed import Streamed
from motet.streaming.upload import received

HEAD = b"POST /sizes HTTP/1.1\r\nHost: localhost\r\n"
FORM = b"Content-Type: multipart/form-data; boundary=x\r\nTransfer-Encoding: chunked\r\n\r\n"
PART = b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
LIMIT_BYTES = 4_000_000


class Door:
    """An application behind the connection: it counts what it gets, floods, and keeps files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.begun, self.left, self.over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.app = FastAPI()
        self.app.post("/sizes")(self.sizes)
        self.app.get("/flood")(self.flood)
        self.app.post("/keep")(self.keep)
        self.app.add_middleware(Bounded, limit_bytes=LIMIT_BYTES)
        install(self.app)
        self.address = ("", 0)

    async def sizes(self, request: Request) -> int:
        return len(await request.body())

    async def flood(self) -> Streamed:
        async def pieces() -> AsyncIterator[bytes]:
            while True:
                yield bytes(1 << 20)
                await asyncio.sleep(0)

        async def close() -> None:
            self.over.set()

        return Streamed(pieces(), "application/octet-stream", close)

    async def keep(self, request: Request) -> int:
        self.begun.set()
        try:
            async with received(request, self.folder, limit_bytes=1 << 30) as form:
                return form.file("file").size_bytes
        finally:
            self.left.set()

    async def open(self, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.address)
        writer.write(sent)
        return reader, writer

    def client(self) -> httpx.AsyncClient:
        host, port = self.address
        return httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=60)


@pytest.fixture
async def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Door]:
    monkeypatch.setattr(connection, "STALL_S", 0.3)
    made = Door(tmp_path / "uploads")
    config = uvicorn.Config(made.app, port=0, http=connection.BoundedHttp, log_level="critical")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event
        await asyncio.sleep(0.01)
    made.address = server.servers[0].sockets[0].getsockname()[:2]
    yield made
    server.should_exit = True
    await running


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """All that comes until the server ends it; nothing where the connection is reset."""
    try:
        async with asyncio.timeout(30):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(
    ("begin", "more"),
    [(HEAD + b"X: ", b"v" * 65_536), (HEAD, b"X: v\r\n" * 11_000), (b"GET /", b"a" * 65_536)],
    ids=["value", "many", "url"],
)
async def test_a_head_without_end_is_refused(door: Door, begin: bytes, more: bytes) -> None:
    reader, writer = await door.open(begin)
    with suppress(ConnectionError):
        for _ in range(64):
            writer.write(more)
            await writer.drain()
            await asyncio.sleep(0)
    assert (await answer(reader, writer))[:12] in (b"HTTP/1.1 400", b"")


async def test_bodies_and_many_requests_are_no_heads(door: Door) -> None:
    async with door.client() as http:
        for size in (0, 1, 70_000, 3_000_000):
            assert (await http.post("/sizes", content=bytes(size))).json() == size
        wide = {f"x-{n}": "v" * 1000 for n in range(40)}
        for _ in range(4):
            assert (await http.post("/sizes", headers=wide)).json() == 0


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=x"])
async def test_a_body_over_the_limit_is_413(door: Door, told: bool, kind: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(LIMIT_BYTES // 100_000 + 1):
            yield bytes(100_000)

    async with door.client() as http:
        content = bytes(LIMIT_BYTES + 1) if told else pieces()
        refused = await http.post("/sizes", content=content, headers={"content-type": kind})
        assert refused.status_code == 413
        assert refused.json()["error"]["code"] == "too_large"
        assert str(LIMIT_BYTES) in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "sent",
    [b"", HEAD, HEAD + b"Content-Length: 100\r\n\r\nabc", b"POST /keep HTTP/1.1\r\n" + FORM],
    ids=["nothing", "half a head", "half a body", "no form"],
)
async def test_who_sends_no_more_of_a_request_is_cut_off(door: Door, sent: bytes) -> None:
    reader, writer = await door.open(sent)
    assert await answer(reader, writer) == b""


async def test_a_form_that_goes_to_disk_has_a_limit_of_its_own(door: Door) -> None:
    async with door.client() as http:
        got = await http.post("/keep", files={"file": bytes(2 * LIMIT_BYTES)})
    assert got.json() == 2 * LIMIT_BYTES


async def test_a_form_of_too_many_parts_is_told_what_is_possible(door: Door) -> None:
    async with door.client() as http:
        many = [("file", (f"{n}.wav", b"")) for n in range(301)]
        got = await http.post("/keep", files=many)
    assert got.status_code == 400
    assert "more than 300 parts" in got.json()["error"]["message"]
    assert list(door.folder.glob("*")) == []


async def test_who_reads_nothing_is_cut_off_and_the_work_ends(door: Door) -> None:
    _, writer = await door.open(b"GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(30):
        await door.over.wait()
    writer.transport.abort()


async def test_a_client_that_vanishes_leaves_no_file_and_no_error(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    sent = PART + bytes(2_000_000)
    _, writer = await door.open(b"POST /keep HTTP/1.1\r\nHost: localhost\r\n" + FORM)
    writer.write(b"%x\r\n" % len(sent) + sent + b"\r\n")
    await writer.drain()
    async with asyncio.timeout(30):
        await door.begun.wait()
        writer.transport.abort()
        await door.left.wait()
    assert list(door.folder.glob("*")) == []
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []


async def test_a_full_disk_is_a_507_and_leaves_nothing(door: Door) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        async with door.client() as http:
            got = await http.post("/keep", files={"file": bytes(3_000_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert got.status_code == 507
    assert got.json()["error"]["code"] == "no_space"
    assert list(door.folder.glob("*")) == []


async def test_an_answer_that_never_began_is_closed() -> None:
    closed: list[str] = []

    async def pieces() -> AsyncIterator[bytes]:
        yield b"never"

    async def close() -> None:
        closed.append("closed")

    async def gone() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        raise OSError(errno.EPIPE, "gone")

    with suppress(OSError, BaseExceptionGroup):
        await Streamed(pieces(), "text/plain", close)({"type": "http", "method": "GET"}, gone, send)
    assert closed == ["closed"]
