"""What the page does when the connection ends, against a server that is played by the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from playwright.async_api import Page, WebSocketRoute

from ..support.serving import serving
from .conftest import browsing, visit


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as url:
        yield url


class Played:
    """The server's side of each connection that the page opens, in order."""

    def __init__(self) -> None:
        self.sockets: list[WebSocketRoute] = []
        self.received: list[dict[str, Any]] = []

    def accept(self, socket: WebSocketRoute) -> None:
        self.sockets.append(socket)
        socket.on_message(lambda text: self.answer(socket, json.loads(text)))
        self.send(type="session.created", session={})

    def answer(self, socket: WebSocketRoute, event: dict[str, Any]) -> None:
        self.received.append(event)
        if event["type"] == "session.update":
            socket.send(json.dumps({"type": "session.updated", "session": event["session"]}))

    def send(self, **event: Any) -> None:
        self.sockets[-1].send(json.dumps(event))

    def count(self, kind: str) -> int:
        return sum(event["type"] == kind for event in self.received)


@pytest.fixture
async def talking(chromium: str, address: str) -> AsyncIterator[tuple[Page, Played]]:
    """The page in a conversation by typing."""
    played = Played()
    async with browsing(chromium) as browser:
        page = (await visit(browser, address)).page
        await page.route_web_socket("**/v1/realtime**", played.accept)
        await page.fill(".typing input", "Hello?")
        await page.press(".typing input", "Enter")
        await page.wait_for_selector("[data-state=thinking]")
        yield page, played


@pytest.mark.timeout(40)
async def test_a_lost_connection_is_taken_up_again_and_says_so(
    talking: tuple[Page, Played],
) -> None:
    page, played = talking
    await played.sockets[0].close(code=1012, reason="The server is restarting.")
    await page.wait_for_selector(".problem h2")
    assert await page.inner_text(".problem h2") == "The connection was lost"
    assert "Trying again in 1 s" in await page.inner_text(".problem")
    await page.wait_for_selector("[data-state=listening]")
    await page.wait_for_selector(".anew")
    assert await page.is_hidden(".problem")
    assert len(played.sockets) == 2
    await page.fill(".typing input", "Are you there?")
    await page.press(".typing input", "Enter")
    await page.wait_for_selector("[data-state=thinking]")
    assert played.count("response.create") == 2


@pytest.mark.timeout(40)
async def test_trying_now_does_not_open_two_connections(talking: tuple[Page, Played]) -> None:
    page, played = talking
    await played.sockets[0].close(code=1011)
    await page.click(".problem button")
    await page.wait_for_selector("[data-state=listening]")
    await asyncio.sleep(1.5)
    assert len(played.sockets) == 2


@pytest.mark.timeout(40)
async def test_it_gives_up_after_five_tries_in_a_row(chromium: str, address: str) -> None:
    opened: list[WebSocketRoute] = []

    async def hang_up(socket: WebSocketRoute) -> None:
        opened.append(socket)
        socket.send(json.dumps({"type": "session.created", "session": {}}))
        await socket.close(code=1011)

    async with browsing(chromium) as browser:
        page = (await visit(browser, address)).page
        await page.clock.install()
        await page.route_web_socket("**/v1/realtime**", hang_up)
        await page.fill(".typing input", "Hello?")
        await page.press(".typing input", "Enter")
        for pause_s in (1, 2, 4, 8, 15):
            await page.get_by_text(f"Trying again in {pause_s} s").wait_for()
            await page.clock.run_for(pause_s * 1000)
        await page.wait_for_selector("[data-state=idle]")
        assert len(opened) == 6
        assert await page.is_visible(".problem button")


@pytest.mark.timeout(40)
async def test_a_policy_close_is_final_and_names_its_reason(talking: tuple[Page, Played]) -> None:
    page, played = talking
    await played.sockets[0].close(code=1008, reason="Too much of it.")
    await page.wait_for_selector("[data-state=idle]")
    assert "Too much of it." in await page.inner_text(".problem")
    await asyncio.sleep(1.5)
    assert len(played.sockets) == 1


@pytest.mark.timeout(40)
async def test_a_failed_reply_is_said_and_the_conversation_goes_on(
    talking: tuple[Page, Played],
) -> None:
    page, played = talking
    played.send(type="response.created", response={"id": "resp_1", "status": "in_progress"})
    error = {"type": "server_error", "code": "component_failed", "message": "llm: it broke"}
    details = {"type": "failed", "error": error}
    done = {"id": "resp_1", "status": "failed", "status_details": details}
    played.send(type="response.done", response=done)
    await page.wait_for_selector("[data-state=listening]")
    assert await page.inner_text(".problem h2") == "The reply failed"
    assert "llm: it broke" in await page.inner_text(".problem .detail")


@pytest.mark.timeout(40)
async def test_what_is_said_is_text_never_markup(talking: tuple[Page, Played]) -> None:
    page, played = talking
    evil = "<img src=x onerror=alert(1)><b>hi</b>"
    content = [{"type": "input_text", "text": evil}]
    item = {"id": "item_u", "type": "message", "role": "user", "content": content}
    played.send(type="conversation.item.added", item=item)
    played.send(type="response.created", response={"id": "resp_1", "status": "in_progress"})
    played.send(type="response.output_text.delta", response_id="resp_1", delta=evil)
    await page.wait_for_selector(".reply .word")
    assert await page.inner_text(".said") == evil
    assert evil.split()[0] in await page.inner_text(".reply")
    assert await page.locator(".turn img, .turn b").count() == 0
