"""@openai/agents-realtime, unmodified, in a browser: its default there is WebRTC."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Route

from ..page.conftest import browsing, chromium  # noqa: F401
from .test_agents_js import modules

pytest.importorskip("aiortc")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not shutil.which("npm"), reason="npm isn't installed"),
]
CONNECT = (Path(__file__).parent / "agents_webrtc.js").read_text()
TALKED = "window.report().history.filter((item) => item.role === 'assistant').length >= {}"


async def test_a_browsers_agent_uses_its_tool_by_voice_and_in_writing_over_webrtc(
    chromium: str,  # noqa: F811
    tools: str,
    question: Path,
) -> None:
    folder = await asyncio.to_thread(modules)
    bundle = folder / "node_modules" / "@openai" / "agents-realtime" / "dist" / "bundle"

    async def give(route: Route) -> None:
        """A file of the package's own bundle."""
        file = bundle / route.request.url.rpartition("/")[2]
        await route.fulfill(path=file, content_type="text/javascript")

    async with (
        browsing(chromium, question) as browser,
        httpx.AsyncClient(base_url=tools) as http,
    ):
        made = await http.post("/v1/realtime/client_secrets", json={})
        page = await browser.new_page()
        await page.route("**/bundle/*", give)
        await page.goto(f"{tools}/healthz")
        await page.evaluate(CONNECT, [tools, made.json()["value"]])
        await page.wait_for_function(TALKED.format(1), timeout=40_000)
        await page.evaluate("window.session.sendMessage('What is the weather in Oslo?')")
        await page.wait_for_function(TALKED.format(2), timeout=40_000)
        await page.wait_for_function("window.report().calls.length >= 2")
        await page.evaluate("window.session.interrupt()")
        cleared = "window.report().types.includes('output_audio_buffer.cleared')"
        await page.wait_for_function(cleared)
        seen = await page.evaluate("window.report()")
        await page.evaluate("window.session.close()")
    assert seen["errors"] == []
    assert seen["calls"] == ["Oslo", "Oslo"]
    assert seen["callId"].startswith("rtc_")
    assert "output_audio_buffer.started" in seen["types"]
