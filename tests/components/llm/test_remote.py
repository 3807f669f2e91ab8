"""A remote server in its moods: on real sockets, and as a transport that answers as told."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from motet.components.base import Context, Setup
from motet.components.errors import (
    BadInput,
    ComponentFailed,
    DeadlineExceeded,
    MissingRequirement,
    MotetError,
    Overloaded,
)
from motet.components.frames import Clear, Completed, Frame, Message, Prompt, TextDelta, Voice
from motet.components.llm.remote import RemoteLlm, RemoteLlmOptions

HELLO = Prompt((Message("user", "Hello"),))
Handler = Callable[[httpx.Request], httpx.Response]


def sse(*texts: str, end: str = "data: [DONE]\n\n") -> bytes:
    events = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in texts]
    return ("".join(f"data: {json.dumps(event)}\n\n" for event in events) + end).encode()


async def ask(llm: RemoteLlm, *frames: Frame, context: Context | None = None) -> list[Frame]:
    async def stream() -> AsyncIterator[Frame]:
        for frame in frames:
            yield frame

    return [frame async for frame in llm.run(stream(), context or Context())]


@asynccontextmanager
async def answering(handler: Handler, **options: Any) -> AsyncIterator[RemoteLlm]:
    """A component whose server is `handler`."""
    setup = Setup("llm", model="m", options={"base_url": "http://llm.test/v1", **options})
    llm = RemoteLlm(setup, transport=httpx.MockTransport(handler))
    await llm.load()
    try:
        yield llm
    finally:
        await llm.close()


@asynccontextmanager
async def served(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any], **options: Any
) -> AsyncIterator[RemoteLlm]:
    """A component whose server is a socket; `talk` gets each connection after its request."""
    tasks: set[asyncio.Task[Any]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())  # type: ignore[arg-type]
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    llm = RemoteLlm(
        Setup("llm", model="m", options={"base_url": f"http://127.0.0.1:{port}/v1", **options})
    )
    await llm.load()
    try:
        yield llm
    finally:
        await llm.close()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


async def test_prompts_are_answered_in_order_and_other_frames_pass() -> None:
    bodies: list[dict[str, Any]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        assert request.headers["x-team"] == "a"
        return httpx.Response(200, content=sse(f"answer {len(bodies)}"))

    async with answering(
        handler, temperature=0.3, max_tokens=9, headers={"x-team": "a"}, extra_body={"top_k": 5}
    ) as llm:
        second = Prompt((Message("user", "Again"),), temperature=0.9, spoken=False)
        voice, clear = Voice("x"), Clear()
        out = await ask(llm, voice, HELLO, clear, second)
    kinds = [type(frame) for frame in out]
    assert kinds == [Voice, TextDelta, Completed, Clear, TextDelta, Completed]
    assert out[1] == TextDelta("answer 1")
    assert out[4] == TextDelta("answer 2", spoken=False)
    assert [body["temperature"] for body in bodies] == [0.3, 0.9]
    assert all(body["max_tokens"] == 9 and body["top_k"] == 5 for body in bodies)


async def test_a_server_that_does_not_stream_is_read_too() -> None:
    whole = {"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}
    async with answering(lambda _: httpx.Response(200, json=whole)) as llm:
        out = await ask(llm, HELLO)
    assert [type(frame) for frame in out] == [TextDelta, Completed]


async def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup("llm", model="m", options={"base_url": "http://x/v1", "api_key_env": "A_KEY"})
    monkeypatch.delenv("A_KEY", raising=False)
    assert "A_KEY" in RemoteLlm.requirements(setup)[0]
    with pytest.raises(MissingRequirement, match="A_KEY"):
        await RemoteLlm(setup).load()
    monkeypatch.setenv("A_KEY", "secret")
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        return httpx.Response(200, content=sse("x"))

    async with answering(handler, api_key_env="A_KEY") as llm:
        await ask(llm, HELLO)
    assert seen == ["Bearer secret"]


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
    [(b"", "silent for 0.2 s"), (HEAD, "silent for 0.2 s"), (HEAD + sse("a", end=""), "0.1 s")],
)
async def test_a_stalled_server_fails_in_time(before: bytes, words: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(before)
        await writer.drain()
        await asyncio.sleep(30)

    options = {"first_token_timeout_s": 0.2, "between_tokens_timeout_s": 0.1, "retries": 0}
    started = time.monotonic()
    async with served(talk, **options) as llm:
        with pytest.raises(ComponentFailed, match=words):
            await ask(llm, HELLO)
        assert time.monotonic() - started < 2


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

    async def stream() -> AsyncIterator[Frame]:
        yield HELLO

    async with served(talk) as llm:
        out = llm.run(stream(), Context())
        assert await anext(out) == TextDelta("one")
        if how == "close":
            await out.aclose()  # type: ignore[attr-defined]
        else:
            waiting = asyncio.ensure_future(anext(out))
            await asyncio.sleep(0.02)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await asyncio.wait_for(hung_up.wait(), 1)


async def test_a_connection_that_breaks_is_a_failure() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = HEAD.replace(b"Connection: close", b"Transfer-Encoding: chunked")
        body = sse("one", end="")
        writer.write(head + f"{len(body):x}\r\n".encode() + body + b"\r\n")
        await writer.drain()

    async with served(talk) as llm:
        with pytest.raises(ComponentFailed, match=r"127\.0\.0\.1"):
            await ask(llm, HELLO)


def test_options_are_checked() -> None:
    with pytest.raises(ValidationError, match="base_url"):
        RemoteLlmOptions.model_validate({})
    with pytest.raises(ValidationError, match="tempo"):
        RemoteLlmOptions.model_validate({"base_url": "http://x/v1", "tempo": 1})
    setup = Setup("llm", options={"base_url": "http://x/v1"})
    assert "model" in RemoteLlm.requirements(setup)[0]
