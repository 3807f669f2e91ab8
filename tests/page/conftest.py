"""A browser that drives the page: headless Chromium with a microphone that plays a WAV."""

from __future__ import annotations

import base64
import os
import shutil
import wave
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright
from postgres import own_postgres

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-device-for-media-stream",
    "--host-resolver-rules=MAP insecure.test 127.0.0.1",
)

# Keeps what the page really sends to the loudspeaker, and what its policy forbade.
LISTEN = """
window.heard = [];
window.forbidden = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.forbidden.push(`${event.violatedDirective} ${event.blockedURI}`));
const connect = AudioNode.prototype.connect;
AudioNode.prototype.connect = function (target, ...rest) {
  if (target instanceof AudioDestinationNode) {
    const tap = this.context.createScriptProcessor(1024, 1, 1);
    tap.onaudioprocess = ({ inputBuffer }) =>
      window.heard.push(...inputBuffer.getChannelData(0).map((x) => Math.round(x * 32767)));
    connect.call(this, tap);
    connect.call(tap, target);
  }
  return connect.call(this, target, ...rest);
};
"""

AS_BASE64 = """() => {
  const bytes = new Uint8Array(Int16Array.from(window.heard).buffer);
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192)
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}"""


@dataclass
class Visit:
    """The page as opened, and what the browser had to say about it."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    async def heard(self) -> np.ndarray[Any, Any]:
        """Samples at 24 kHz, in -1..1, that went to the loudspeaker so far."""
        pcm = base64.b64decode(await self.page.evaluate(AS_BASE64))
        return np.frombuffer(pcm, "<i2").astype(np.float32) / 32768

    async def check_looks(self, contrast: str) -> None:
        """In light and dark, on a desk and on a phone: `contrast` finds nothing, nothing is cut."""
        for scheme in ("light", "dark"):
            for width in (1440, 390):
                await self.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                await self.page.set_viewport_size({"width": width, "height": 850})
                assert await self.page.evaluate(contrast) == []
                assert await self.page.evaluate("document.documentElement.scrollWidth") <= width

    async def check_clean(self) -> None:
        """Nothing was written to the console as an error, nothing broke the page's policy."""
        assert await self.page.evaluate("window.forbidden") == []
        assert self.complaints == []


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    """The URL of a PostgreSQL of these tests."""
    with own_postgres() as url:
        yield url


@pytest.fixture(scope="session")
def chromium() -> str:
    """Where the browser is."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium on this machine (install it, or set CHROMIUM to its path)")
    return found


@asynccontextmanager
async def browsing(chromium: str, microphone: Path | None = None) -> AsyncIterator[Browser]:
    """A browser whose microphone plays `microphone` once, from when it is opened."""
    flags = [*FLAGS, "--use-fake-ui-for-media-stream"] if microphone else list(FLAGS)
    if microphone is not None:
        flags.append(f"--use-file-for-fake-audio-capture={microphone}%noloop")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=flags)
        try:
            yield browser
        finally:
            await browser.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    """One browser for a file's tests, each of which opens pages of its own."""
    async with browsing(chromium) as opened:
        yield opened


async def visit(
    browser: Browser, url: str, *, wide: bool = True, view: str = "talk", **context: Any
) -> Visit:
    """Open the page at one of the two widths it is made for, and wait for its view."""
    size = {"width": 1440, "height": 900} if wide else {"width": 390, "height": 844}
    opened = await browser.new_context(viewport=size, **context)  # type: ignore[arg-type]
    page = await opened.new_page()
    await page.add_init_script(LISTEN)
    seen = Visit(page)
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on(
        "console",
        lambda message: seen.complaints.append(message.text) if message.type == "error" else None,
    )
    await page.goto(url)
    await page.wait_for_selector(f".{view}-view")
    return seen


def write_wav(path: Path, pcm: np.ndarray[Any, Any], rate_hz: int = 24_000) -> Path:
    """Mono int16 samples as a file for the fake microphone."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(pcm.astype("<i2").tobytes())
    return path
