"""A page of another origin calls by WebRTC: plain RTCPeerConnection code in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from caller import quiet, speech
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from playwright.async_api import Page
from voicespec import voice_spec

from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec

from ..support.serving import listening, serving
from .conftest import browsing, write_wav

pytest.importorskip("aiortc")

CALL = (Path(__file__).parent / "webrtc.js").read_text()
HEARD = "window.events.filter((event) => event.type === '{}').length >= {}"
# What the loudspeaker got: seconds of sound, by the browser's own statistics.
LOUDNESS = """async () => {
  for (const report of (await window.pc.getStats()).values())
    if (report.type === "inbound-rtp" && report.kind === "audio")
      return [report.totalAudioEnergy, report.totalSamplesDuration];
}"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]

ANSWER = {"use": "fakes:Answer", "options": {"text": "One. Two. Three. Four. Five. Six."}}
VOICE = voice_spec(vad="vad/silero", llm=ANSWER, tts="callfakes:Hum")


def their_page() -> FastAPI:
    """A site of somebody else, with nothing on it."""
    app = FastAPI()

    @app.get("/", response_class=HTMLResponse)
    async def page() -> str:
        return "<!doctype html><link rel=icon href=data:,><title>Theirs</title>"

    return app


@contextmanager
def serving_voice(origin: str) -> Iterator[str]:
    """A server with a key, which pages of that origin may use; its address."""
    graph = build(PipelineSpec.model_validate(VOICE))
    with serving(graph, api_keys=("k",), allow_origins=(origin,)) as address:
        yield address


async def until(page: Page, kind: str, count: int = 1) -> dict[str, Any]:
    """The `count`th event of that type, in the page."""
    await page.wait_for_function(HEARD.format(kind, count), timeout=30_000)
    found = await page.evaluate(f"window.events.filter((event) => event.type === '{kind}')")
    return found[count - 1]


async def test_a_call_by_an_ephemeral_key_is_answered_interrupted_and_hung_up(
    chromium: str, tmp_path: Path
) -> None:
    question = [quiet(0.5), speech("What is the capital of France?"), quiet(2.5), speech("Stop.")]
    microphone = write_wav(tmp_path / "mic.wav", np.concatenate([*question, quiet(20)]))
    with listening(their_page()) as theirs, serving_voice(theirs) as ours:
        async with (
            browsing(chromium, microphone) as browser,
            httpx.AsyncClient(base_url=ours, headers={"authorization": "Bearer k"}) as http,
        ):
            made = await http.post("/v1/realtime/client_secrets", json={})
            page = await browser.new_page()
            await page.goto(theirs)
            where = await page.evaluate(CALL, [ours, made.json()["value"]])
            assert (await until(page, "session.created"))["session"]["model"] == "voice"
            await until(page, "output_audio_buffer.started")
            cut = await until(page, "conversation.item.truncated")
            assert 0 < cut["audio_end_ms"] < 6 * 800
            await until(page, "output_audio_buffer.cleared")
            await until(page, "output_audio_buffer.started", 2)
            await until(page, "output_audio_buffer.stopped")
            energy, seconds = await page.evaluate(LOUDNESS)
            assert seconds > 4.8
            assert energy > 0.05, "the second answer, whole, at a quarter of full scale"
            kinds = {e["type"] for e in await page.evaluate("window.events")}
            assert "response.output_audio.delta" not in kinds
            assert "error" not in kinds
            assert (await http.post(f"{where}/hangup")).status_code == 200
            await page.wait_for_function("window.ended === true")
