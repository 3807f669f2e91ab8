"""A server that refuses, stalls, breaks off or never ends: each is told in time and in words."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest
from chatserver import HEAD, HELLO, answering, served, sse
from running import ask, stream

from motet.components.base import Context, Setup
from motet.components.errors import (
    BadInput,
    ComponentFailed,
    DeadlineExceeded,
    MotetError,
    Overloaded,
)
from motet.components.frames import TextDelta
from motet.components.httpstream import LARGEST_ANSWER_BYTES
from motet.components.llm.remote import RemoteLlm


@pytest.mark.parametrize(
    ("response", "kind", "words"),
    [
        (httpx.Response(401, json={"error": {"message": "no"}}), ComponentFailed, "api_key_env"),
        (httpx.Response(400, json={"error": {"message": "odd"}}), BadInput, "odd"),
        (httpx.Response(422, json={"detail": "odd field"}), BadInput, "odd field"),
        (httpx.Response(500, text="boom"), ComponentFailed, "HTTP 500: boom"),
        (httpx.Response(503, json={"error": {"message": "full"}}), Overloaded, "full"),
        (httpx.Response(200, content=b"data: {not json\n\n"), ComponentFailed, "not JSON"),
        (httpx.Response(200, content=b"data: [1]\n\n"), ComponentFailed, "no object"),
        (httpx.Response(200, content=b"<html>"), ComponentFailed, "broke off"),
        (httpx.Response(200, content=sse("Hi", end="")), ComponentFailed, "broke off"),
    ],
)
async def test_each_refusal_says_what_is_wrong(
    response: httpx.Response, kind: type[MotetError], words: str
) -> None:
    async with answering(lambda _: response, retries=0) as llm:
        with pytest.raises(kind, match=words) as caught:
            await ask(llm, HELLO)
    assert type(caught.value) is kind
    assert caught.value.where == "llm"


@pytest.mark.parametrize(("status", "words"), [(200, "is larger than"), (500, "HTTP 500: xxx")])
async def test_a_body_without_end_is_not_read_to_its_end(status: int, words: str) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1 << 20
            yield b"x" * (1 << 20)

    kind = {"content-type": "application/json"}
    answer = httpx.Response(status, headers=kind, content=endless())
    async with answering(lambda _: answer, retries=0) as llm:
        with pytest.raises(ComponentFailed, match=words):
            await ask(llm, HELLO)
    assert sent <= LARGEST_ANSWER_BYTES + (1 << 20)


async def test_an_unknown_model_is_answered_with_the_known_ones() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": "big"}, {"id": "small"}]})
        return httpx.Response(404, json={"error": {"message": "no such model"}})

    async with answering(handler) as llm:
        with pytest.raises(ComponentFailed, match=r"no model 'm'.*big, small"):
            await ask(llm, HELLO)


async def test_retry_after_is_passed_on() -> None:
    full = httpx.Response(429, headers={"retry-after": "7"}, json={"error": {"message": "full"}})
    async with answering(lambda _: full) as llm:
        with pytest.raises(Overloaded) as caught:
            await ask(llm, HELLO)
    assert caught.value.retry_after_s == 7


async def test_a_passing_failure_is_tried_again_but_not_after_the_first_byte() -> None:
    tries = 0

    def flaky(_: httpx.Request) -> httpx.Response:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise httpx.ConnectError("refused")
        if tries == 2:
            return httpx.Response(503, headers={"retry-after": "0.01"})
        return httpx.Response(200, content=sse("fine"))

    async with answering(flaky, retries=2) as llm:
        assert (await ask(llm, HELLO))[0] == TextDelta("fine")
    assert tries == 3

    tries = 10
    async with answering(lambda _: httpx.Response(200, content=sse("a", end="")), retries=5) as llm:
        with pytest.raises(ComponentFailed, match="broke off"):
            await ask(llm, HELLO)


async def test_nobody_listens_there() -> None:
    probe = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = probe.sockets[0].getsockname()[1]
    probe.close()
    await probe.wait_closed()
    llm = RemoteLlm(
        Setup("llm", model="m", options={"base_url": f"http://127.0.0.1:{port}/v1", "retries": 0})
    )
    await llm.load()
    with pytest.raises(ComponentFailed, match=f"127.0.0.1:{port}.*is the server up"):
        await ask(llm, HELLO)
    await llm.close()


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (b"", "silent for 0.2 s"),
        (HEAD, "silent for 0.2 s"),
        (HEAD + sse("a", end=""), "0.1 s"),
        (b"HTTP/1.1 500 Oh\r\ncontent-length: 9\r\n\r\nboo", "silent for 0.2 s"),
    ],
)
async def test_a_stalled_server_fails_in_time(before: bytes, words: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(before)
        await writer.drain()
        await asyncio.sleep(30)

    options = {"first_token_timeout_s": 0.2, "between_tokens_timeout_s": 0.1, "retries": 0}
    async with served(talk, **options) as llm:
        # Far sooner than the server would speak.
        async with asyncio.timeout(15):
            with pytest.raises(ComponentFailed, match=words):
                await ask(llm, HELLO)


async def test_the_deadline_counts_before_the_servers_patience() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    async with served(talk) as llm:
        with pytest.raises(DeadlineExceeded):
            await ask(llm, HELLO, context=Context(deadline_s=time.monotonic() + 0.2))
        with pytest.raises(DeadlineExceeded):
            await ask(llm, HELLO, context=Context(deadline_s=time.monotonic() - 1))


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_stopping_hangs_up_at_once(how: str) -> None:
    hung_up = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + sse("one", end=""))
        await writer.drain()
        await reader.read()
        hung_up.set()

    async with served(talk) as llm:
        out = llm.run(stream(HELLO), Context())
        assert await anext(out) == TextDelta("one")
        if how == "close":
            await out.aclose()  # type: ignore[attr-defined]
        else:
            waiting = asyncio.ensure_future(anext(out))
            await asyncio.sleep(0.02)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await asyncio.wait_for(hung_up.wait(), 15)


async def test_a_connection_that_breaks_is_a_failure() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = HEAD.replace(b"Connection: close", b"Transfer-Encoding: chunked")
        body = sse("one", end="")
        writer.write(head + f"{len(body):x}\r\n".encode() + body + b"\r\n")
        await writer.drain()

    async with served(talk) as llm:
        with pytest.raises(ComponentFailed, match=r"127\.0\.0\.1"):
            await ask(llm, HELLO)
