"""The page's modules by themselves, run in a browser: resampling, turns, timings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest
from playwright.async_api import Page

from ..support.serving import serving
from .conftest import browsing, visit


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture
async def page(chromium: str, address: str) -> AsyncIterator[Page]:
    async with browsing(chromium) as browser:
        yield (await visit(browser, address)).page


RESAMPLE = """async ([samples, fromHz, size]) => {
  const { Resampler } = await import("/page/voice/resample.js");
  const resampler = new Resampler(fromHz, 24000);
  const output = [];
  for (let at = 0; at < samples.length; at += size)
    output.push(...resampler.push(Float32Array.from(samples.slice(at, at + size))));
  return output;
}"""


@pytest.mark.timeout(40)
@pytest.mark.parametrize("from_hz", [48_000, 44_100, 16_000])
async def test_resampling_keeps_the_signal_whatever_its_chunks(page: Page, from_hz: int) -> None:
    tone = np.sin(np.arange(from_hz // 2) * 2 * np.pi * 440 / from_hz)
    whole = np.array(await page.evaluate(RESAMPLE, [tone.tolist(), from_hz, len(tone)]))
    chunked = np.array(await page.evaluate(RESAMPLE, [tone.tolist(), from_hz, 128]))
    assert np.array_equal(whole, chunked)
    assert 12_000 - 40 <= len(whole) <= 12_000
    wave = np.sin(np.arange(len(whole)) * 2 * np.pi * 440 / 24_000)
    assert np.abs(whole[100:-100] - wave[100:-100]).max() < 0.01


@pytest.mark.timeout(40)
async def test_resampling_keeps_out_what_24_khz_cannot_hold(page: Page) -> None:
    whistle = np.sin(np.arange(24_000) * 2 * np.pi * 15_000 / 48_000)
    heard = np.array(await page.evaluate(RESAMPLE, [whistle.tolist(), 48_000, 128]))
    assert np.abs(heard[100:-100]).max() < 0.01


TURNS = """async ([events, marks]) => {
  const { Turns, spokenLength, replyText } = await import("/page/voice/turns.js");
  const turns = new Turns();
  for (const event of events) {
    if (event.type === "audio") turns.received("r", event.samples);
    else turns.apply(event);
  }
  const { reply } = turns.list.at(-1);
  const text = replyText(reply);
  return marks.map((playedMs) => {
    turns.played("a", playedMs);
    return text.slice(0, spokenLength(reply));
  });
}"""

SPOKEN: list[dict[str, Any]] = [
    {"type": "response.created", "response": {"id": "r"}},
    {
        "type": "response.output_item.added",
        "response_id": "r",
        "item": {"id": "a", "type": "message"},
    },
    {"type": "response.output_audio_transcript.delta", "response_id": "r", "delta": "One two."},
    {"type": "audio", "samples": 24_000},
    {"type": "response.output_audio_transcript.delta", "response_id": "r", "delta": " Three."},
    {"type": "audio", "samples": 24_000},
]


@pytest.mark.timeout(40)
async def test_a_reply_is_revealed_as_it_is_played(page: Page) -> None:
    shown = await page.evaluate(TURNS, [SPOKEN, [0, 500, 1000, 1500, 2000]])
    assert shown == ["", "One ", "One two.", "One two. Thr", "One two. Three."]


@pytest.mark.timeout(40)
async def test_an_empty_transcript_takes_its_turn_away(page: Page) -> None:
    left = await page.evaluate(
        """async () => {
          const { Turns } = await import("/page/voice/turns.js");
          const turns = new Turns();
          turns.apply({ type: "input_audio_buffer.speech_started", item_id: "u" });
          turns.apply({
            type: "conversation.item.input_audio_transcription.completed",
            item_id: "u",
            transcript: " ",
          });
          return turns.list.length;
        }"""
    )
    assert left == 0


@pytest.mark.timeout(40)
async def test_stages_follow_each_other_and_end_at_what_was_heard(page: Page) -> None:
    timings = {
        "vad_ms": 40,
        "end_of_turn_ms": 500,
        "asr_ms": 90,
        "llm_first_token_ms": 60,
        "tts_first_audio_ms": 30,
        "total_ms": 720,
    }
    rows = await page.evaluate(
        "(timings) => import('/page/voice/timings.js').then((m) => m.stages(timings, 800))",
        timings,
    )
    ends = [row["startMs"] + row["lengthMs"] for row in rows]
    assert [row["startMs"] for row in rows[1:]] == ends[:-1]
    assert rows[-1] == {"label": "Network, playback", "startMs": 720, "lengthMs": 80}
