"""How long a client may take for a request, by a clock of the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from motet.streaming.connection import LEAST_BYTES, STALL_S, BoundedHttp

HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n"


class Timer:
    """A call at a time."""

    def __init__(self, at_s: float, call: Callable[[], None]) -> None:
        self.at_s = at_s
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """What the protocol takes of a loop: time that passes when told, and no application."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now_s

    def call_at(self, at_s: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(at_s, call))
        return self.timers[-1]

    def call_later(self, wait_s: float, call: Callable[[], None]) -> Timer:
        return self.call_at(self.now_s + wait_s, call)

    def create_task(self, work: Coroutine[Any, Any, None], **_: object) -> asyncio.Future[None]:
        work.close()  # it hasn't begun, so nothing of the application is left
        return asyncio.get_running_loop().create_future()

    def go(self, wait_s: float) -> None:
        """Let time pass, and call what is due."""
        end_s = self.now_s + wait_s
        while due := [t for t in self.timers if t.at_s <= end_s and not t.cancelled]:
            first = min(due, key=lambda timer: timer.at_s)
            self.timers.remove(first)
            self.now_s = max(self.now_s, first.at_s)
            first.call()
        self.now_s = end_s


class Transport(asyncio.Transport):
    """Notes whether it was cut."""

    cut = False

    def is_closing(self) -> bool:
        return self.cut

    def abort(self) -> None:
        self.cut = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def nothing(scope: object, receive: object, send: object) -> None:
    """An application that is never asked."""


class Client:
    """A connection whose other end is the test."""

    def __init__(self) -> None:
        config = uvicorn.Config(nothing, log_level="critical")
        config.load()
        self.clock, self.transport = Clock(), Transport()
        loop = cast("asyncio.AbstractEventLoop", self.clock)
        self.http = BoundedHttp(config, ServerState(), {}, loop)
        self.http.connection_made(self.transport)

    def send(self, data: bytes, wait_s: float, times: int = 1) -> bool:
        """Send it that often with pauses behind; whether the connection was cut meanwhile."""
        for _ in range(times):
            if not self.transport.cut:
                self.http.data_received(data)
                self.http.flow.resume_reading()
                self.clock.go(wait_s)
        return self.transport.cut


@pytest.fixture
async def client() -> Client:
    return Client()


async def test_a_head_that_drips_is_cut_off_in_the_time_for_a_head(client: Client) -> None:
    assert not client.send(HEAD, STALL_S * 0.5)
    assert client.send(b"X: y\r\n", STALL_S * 0.1, times=6)
    assert client.clock.now_s == pytest.approx(STALL_S, rel=0.01)


async def test_a_body_that_drips_is_cut_off_after_a_span(client: Client) -> None:
    assert not client.send(HEAD + b"\r\n", 0)
    assert client.send(b"x", STALL_S * 0.3, times=4)


async def test_a_slow_body_is_taken_while_it_comes_at_the_least_rate(client: Client) -> None:
    assert not client.send(HEAD + b"\r\n", STALL_S * 0.1)
    assert not client.send(bytes(LEAST_BYTES), STALL_S * 0.9, times=20)
    assert client.send(b"", STALL_S * 2)


async def test_time_in_which_the_server_reads_nothing_is_not_the_client_s(client: Client) -> None:
    assert not client.send(HEAD + b"\r\n", 0)
    client.http.data_received(bytes(200_000))
    assert client.http.flow.read_paused
    client.clock.go(STALL_S * 1.9)
    client.http.flow.resume_reading()
    client.clock.go(STALL_S * 0.5)
    assert not client.transport.cut
    client.clock.go(STALL_S)
    assert client.transport.cut
