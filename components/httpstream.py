"""A client for one OpenAI-compatible server: a streamed request, its timeouts and its errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import httpx

from .base import Context
from .errors import BadInput, ComponentFailed, DeadlineExceeded, MotetError, Overloaded
from .sse import SseDecoder

Json = dict[str, Any]

Value = TypeVar("Value")

RETRIED = (502, 503, 504)
LONGEST_WAIT_S = 2.0
LARGEST_ANSWER_BYTES = 64 << 20
LARGEST_ERROR_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server is and how long to wait for it, in seconds.

    `between_s` bounds the wait between two pieces once the first has come. `retries` count only
    before the first byte of an answer.
    """

    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    connect_s: float = 3.0
    first_s: float = 30.0
    between_s: float = 10.0
    retries: int = 1


class StreamClient:
    """Streams answers of one route of a server; shared by every session, keeps its connections."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        where: str,
        path: str,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._path = path
        self._where = where
        self._http = httpx.AsyncClient(
            base_url=endpoint.base_url.rstrip("/"),
            headers=dict(endpoint.headers),
            timeout=httpx.Timeout(None, connect=endpoint.connect_s),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            transport=transport,
        )

    async def events(self, body: Json, context: Context) -> AsyncGenerator[Json | None, None]:
        """The events of one answer as JSON, None for the one that says it is complete. Closing
        the iterator closes the connection.

        Raises:
            BadInput: the server says that the request is wrong.
            Overloaded: the server has no room; `retry_after_s` is its hint.
            DeadlineExceeded: the deadline passed while waiting.
            ComponentFailed: the server can't be reached, stalls, breaks, or isn't of this dialect.
        """
        response = await self._open(body, context)
        try:
            async with aclosing(self._events(response, context)) as events:
                async for event in events:
                    if event == "[DONE]":
                        yield None
                        return
                    yield self._parse(event)
        finally:
            await response.aclose()

    async def models(self) -> list[str]:
        """The ids that the server says it has; empty when it doesn't tell."""
        try:
            answer = await self._http.get("/models", timeout=self.endpoint.connect_s)
            listed = answer.json()["data"]
            return [str(item["id"]) for item in listed]
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return []

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def _open(self, body: Json, context: Context) -> httpx.Response:
        """Send the request, again after a passing failure, until the answer's head is there."""
        attempt = 0
        while True:
            failure = None
            try:
                response = await self._send(body, context)
                if response.is_success:
                    return response
                failure = await self._refusal(response, str(body.get("model", "")), context)
                again = response.status_code in RETRIED
                pause_s = _retry_after_s(response) or 0.1 * 2**attempt
            except httpx.TransportError as error:
                failure, again, pause_s = self._unreachable(error), True, 0.1 * 2**attempt
            attempt += 1
            if not again or attempt > self.endpoint.retries or pause_s > LONGEST_WAIT_S:
                raise failure
            await self._within(asyncio.sleep(pause_s), None, context)

    async def _send(self, body: Json, context: Context) -> httpx.Response:
        request = self._http.build_request("POST", self._path, json=body)
        sent = self._http.send(request, stream=True)
        return await self._within(sent, self.endpoint.first_s, context)

    async def _events(
        self, response: httpx.Response, context: Context
    ) -> AsyncGenerator[str, None]:
        """The data of each event; a whole JSON answer counts as one event and its end."""
        if "json" in response.headers.get("content-type", ""):
            kept = await self._whole(response, LARGEST_ANSWER_BYTES, context)
            if len(kept) > LARGEST_ANSWER_BYTES:
                raise ComponentFailed(
                    f"an answer is larger than {LARGEST_ANSWER_BYTES} bytes", where=self._where
                )
            yield kept.decode(errors="replace")
            yield "[DONE]"
            return
        decoder, limit_s = SseDecoder(where=self._where), self.endpoint.first_s
        async with aclosing(cast("Any", response.aiter_bytes())) as chunks:
            while (chunk := await self._next(chunks, limit_s, context)) is not None:
                for event in decoder.feed(chunk):
                    limit_s = self.endpoint.between_s
                    yield event
        for event in decoder.flush():
            yield event

    async def _whole(self, response: httpx.Response, most_bytes: int, context: Context) -> bytes:
        """A body; of one that is larger, a little more than `most_bytes`."""
        kept = bytearray()
        async with aclosing(cast("Any", response.aiter_bytes())) as chunks:
            while (chunk := await self._next(chunks, self.endpoint.first_s, context)) is not None:
                kept += chunk
                if len(kept) > most_bytes:
                    break
        return bytes(kept)

    async def _next(
        self, chunks: AsyncGenerator[bytes, None], limit_s: float, context: Context
    ) -> bytes | None:
        """The next piece of a body, None at its end."""
        try:
            return await self._within(anext(chunks, None), limit_s, context)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    async def _within(
        self, work: Awaitable[Value], limit_s: float | None, context: Context
    ) -> Value:
        """Wait for `work`, no longer than the server has nor the caller's deadline."""
        left_s = context.remaining_s()
        limits = [limit for limit in (limit_s, left_s) if limit is not None]
        try:
            async with asyncio.timeout(max(min(limits), 0.0) if limits else None):
                return await work
        except TimeoutError as error:
            if left_s is not None and (limit_s is None or left_s <= limit_s):
                raise DeadlineExceeded(
                    "the deadline passed while the model worked", where=self._where
                ) from error
            raise ComponentFailed(
                f"{self.endpoint.base_url} was silent for {limit_s:g} s", where=self._where
            ) from error

    def _parse(self, event: str) -> Json:
        try:
            value = json.loads(event)
        except ValueError as error:
            raise ComponentFailed(
                f"an event is not JSON: {event[:80]!r}; is {self.endpoint.base_url} an"
                " OpenAI-compatible server?",
                where=self._where,
            ) from error
        if not isinstance(value, dict):
            raise ComponentFailed(f"an event is {event[:80]!r}, no object", where=self._where)
        return cast("Json", value)

    def _unreachable(self, error: httpx.TransportError) -> MotetError:
        return ComponentFailed(
            f"{self.endpoint.base_url}: {str(error) or type(error).__name__}; is the server up and"
            " the address right (it ends with /v1 at most servers)?",
            where=self._where,
        )

    async def _refusal(self, response: httpx.Response, model: str, context: Context) -> MotetError:
        """The error that a status other than 2xx stands for."""
        try:
            kept = await self._whole(response, LARGEST_ERROR_BYTES, context)
            text = kept[:LARGEST_ERROR_BYTES].decode(errors="replace")
        finally:
            await response.aclose()
        status, where = response.status_code, self._where
        try:
            said: Any = json.loads(text)
        except ValueError:
            said = text[:200].strip()
        if isinstance(said, dict):
            fields = cast("Json", said)
            said = fields.get("error") or fields
        if status in (401, 403):
            return ComponentFailed(
                f"{self.endpoint.base_url} refuses the key (HTTP {status}); check api_key_env",
                where=where,
            )
        if status == 404:
            known = ", ".join((await self.models())[:20]) or "the server lists none"
            return ComponentFailed(
                f"{self.endpoint.base_url} knows no model {model!r} (HTTP 404); known: {known}",
                where=where,
            )
        return reported_error(
            said, where=where, status=status, retry_after_s=_retry_after_s(response)
        )


def _retry_after_s(response: httpx.Response) -> float | None:
    """`Retry-After` in seconds; dates are left aside, no server of this dialect sends one."""
    try:
        return max(float(response.headers["retry-after"]), 0.0)
    except (KeyError, ValueError):
        return None


def reported_error(
    error: Any, *, where: str, status: int = 500, retry_after_s: float | None = None
) -> MotetError:
    """The exception for an error that a server reports, in its own words cut to 400 characters."""
    fields = cast("Json", error) if isinstance(error, dict) else {"message": error}
    code = fields.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else status
    message = str(fields.get("message") or fields.get("detail") or fields)[:400]
    if fields.get("type") == "exceed_context_size_error":
        asked, room = fields.get("n_prompt_tokens"), fields.get("n_ctx")
        message = (
            f"the prompt has {asked} tokens, the context holds {room};"
            " shorten messages or leave older ones out"
        )
    if status in (400, 413, 422):
        return BadInput(message, where=where)
    if status in (429, 503, 529):
        return Overloaded(message, where=where, retry_after_s=retry_after_s)
    return ComponentFailed(f"HTTP {status}: {message}", where=where)
