"""Talking through the page with real models: a microphone hears speech, a loudspeaker answers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr
from playwright.async_api import Page

from motet.components.models import locate
from motet.pipelines import load

from ..support.serving import VOICE, ScriptedModel, listening, scripted_voice, serving
from .conftest import browsing, visit, write_wav

hibari = pytest.importorskip("hibari")
whisper = pytest.importorskip("faster_whisper")
pytest.importorskip("xllamacpp")

RATE_HZ = 24_000
LONG_REPLY = (
    "A motet is a piece of music for several voices. Each voice sings words of its own, and "
    "together they make one whole. It began eight hundred years ago, in Paris. Singers stood in a "
    "circle around one big book, and every part was written on a corner of the same page."
)


@pytest.fixture(scope="module")
def say() -> Callable[[str], np.ndarray[Any, Any]]:
    voice = hibari.Hibari()
    return lambda text: (np.clip(voice(text, seed=0), -1, 1) * 20_000).astype(np.int16)


@pytest.fixture(scope="module")
def transcribe() -> Callable[[np.ndarray[Any, Any]], str]:
    model = whisper.WhisperModel(str(locate("whisper-tiny-en")), compute_type="int8", cpu_threads=1)

    def text_of(samples: np.ndarray[Any, Any]) -> str:
        segments, _ = model.transcribe(soxr.resample(samples, RATE_HZ, 16_000), beam_size=1)
        return " ".join(segment.text for segment in segments)

    return text_of


@pytest.fixture(scope="module")
def real() -> Iterator[str]:
    """The default pipeline, as it is served."""
    with serving(load(VOICE)) as address:
        yield address


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same, but what it answers is known and long."""
    model = ScriptedModel(LONG_REPLY)
    with (
        listening(model.app) as address,
        serving(scripted_voice(address, tmp_path_factory.mktemp("voice"))) as url,
    ):
        yield url


def silence(seconds: float) -> np.ndarray[Any, Any]:
    return np.zeros(int(seconds * RATE_HZ), np.int16)


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


async def state(page: Page, *names: str, within_s: float = 30) -> None:
    wanted = ", ".join(f"[data-state={name}]" for name in names)
    await page.wait_for_selector(wanted, timeout=within_s * 1000)


def events_of(page: Page) -> list[dict[str, Any]]:
    """Every event that goes over the page's socket from now on, both ways."""
    seen: list[dict[str, Any]] = []

    def watch(socket: Any) -> None:
        for way in ("framesent", "framereceived"):
            socket.on(way, lambda frame: seen.append(json.loads(frame)))

    page.on("websocket", watch)
    return seen


LOUDEST_SOON = """async () => {
  const start = window.heard.length;
  await new Promise((done) => setTimeout(done, 500));
  return Math.max(...window.heard.slice(start + 4800, start + 12000).map(Math.abs));
}"""
"""The loudest sample, 32767 at most, of the time from 0.2 to 0.5 s after now."""


@pytest.mark.slow
@pytest.mark.timeout(90)
async def test_a_spoken_question_is_written_down_and_answered_aloud(
    chromium: str,
    real: str,
    tmp_path: Path,
    say: Callable[[str], np.ndarray[Any, Any]],
    transcribe: Callable[[np.ndarray[Any, Any]], str],
) -> None:
    speech = np.concatenate([silence(1), say("What is the capital of France?"), silence(60)])
    async with browsing(chromium, write_wav(tmp_path / "question.wav", speech)) as browser:
        seen = await visit(browser, real, permissions=["microphone"])
        await seen.page.focus("button.talk")
        await seen.page.keyboard.press("Enter")
        await state(seen.page, "speaking")
        await asyncio.sleep(6)
        said = await seen.page.inner_text(".said")
        spoken = await seen.page.locator(".word:not(.unsaid)").all_inner_texts()
        timings = await seen.page.inner_text(".timings")
        heard = await seen.heard()
        await seen.check_clean()
        await seen.page.keyboard.press("Enter")
        await state(seen.page, "idle")
    assert {"capital", "france"} <= set(words(said))
    assert float(np.sqrt(np.mean(heard**2))) > 0.005
    written, understood = words(" ".join(spoken)), words(transcribe(heard))
    assert len(written) >= 2
    assert sum(word in understood for word in written) >= 0.6 * len(written), (spoken, understood)
    # No "Transcript" where the text is there before the turn is over: stages of 0 ms aren't shown.
    for stage in ("First word", "First sound", "Network, playback"):
        assert stage in timings


@pytest.mark.slow
@pytest.mark.timeout(90)
async def test_speaking_silences_the_reply_and_tells_how_much_was_heard(
    chromium: str,
    scripted: str,
    tmp_path: Path,
    say: Callable[[str], np.ndarray[Any, Any]],
) -> None:
    barge = np.concatenate([silence(8), say("Wait, please stop now."), silence(60)])
    async with browsing(chromium, write_wav(tmp_path / "barge.wav", barge)) as browser:
        seen = await visit(browser, scripted, permissions=["microphone"])
        events = events_of(seen.page)
        await seen.page.click("button.talk")
        await state(seen.page, "listening")
        await seen.page.fill(".typing input", "What is a motet?")
        await seen.page.press(".typing input", "Enter")
        await state(seen.page, "speaking")
        await state(seen.page, "hearing")
        loudest = await seen.page.evaluate(LOUDEST_SOON)
        reply = await seen.page.inner_text(".turn:first-child .reply")
        note = await seen.page.inner_text(".turn:first-child .note")
        await seen.check_clean()
    [truncate] = [event for event in events if event["type"] == "conversation.item.truncate"]
    acknowledged = [e for e in events if e["type"] == "conversation.item.truncated"]
    assert acknowledged[-1]["audio_end_ms"] == pytest.approx(truncate["audio_end_ms"], abs=1)
    assert "cut off" in note
    assert 0 < len(words(reply)) < len(words(LONG_REPLY))
    assert words(LONG_REPLY)[: len(words(reply))] == words(reply)
    assert 500 < truncate["audio_end_ms"] < 9_000
    assert loudest < 30


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_typing_is_answered_aloud_without_a_microphone(
    chromium: str, scripted: str, transcribe: Callable[[np.ndarray[Any, Any]], str]
) -> None:
    async with browsing(chromium) as browser:
        seen = await visit(browser, scripted, wide=False)
        await seen.page.fill(".typing input", "What is a motet?")
        await seen.page.press(".typing input", "Enter")
        await state(seen.page, "speaking")
        await asyncio.sleep(3)
        heard = await seen.heard()
        assert await seen.page.inner_text(".said") == "What is a motet?"
        width = await seen.page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390
        await seen.check_clean()
    assert {"piece", "music"} & set(words(transcribe(heard)))


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_the_voices_of_the_pipeline_are_suggested(chromium: str, scripted: str) -> None:
    async with browsing(chromium) as browser:
        seen = await visit(browser, scripted)
        await seen.page.click("[aria-label=Settings]")
        await seen.page.wait_for_selector("#voices option[value=heart]", state="attached")
        assert await seen.page.get_attribute("[name=voice]", "list") == "voices"
        await seen.check_clean()


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_an_insecure_page_still_reads_its_answers(chromium: str, scripted: str) -> None:
    async with browsing(chromium) as browser:
        seen = await visit(browser, scripted)
        await seen.page.evaluate(
            "Object.defineProperty(window, 'isSecureContext', { value: false })"
        )
        await seen.page.fill(".typing input", "What is a motet?")
        await seen.page.press(".typing input", "Enter")
        await seen.page.wait_for_function(
            "() => document.querySelector('.reply')?.textContent.includes('same page')"
        )
        assert await seen.page.locator(".word.unsaid").count() == 0


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_a_full_server_is_said_to_be_full(chromium: str, tmp_path: Path) -> None:
    model = ScriptedModel("Yes.")
    with (
        listening(model.app) as address,
        serving(scripted_voice(address, tmp_path), max_sessions=1) as url,
    ):
        async with browsing(chromium) as browser:
            first, second = await visit(browser, url), await visit(browser, url)
            await first.page.fill(".typing input", "Hello?")
            await first.page.press(".typing input", "Enter")
            await state(first.page, "speaking")
            await second.page.fill(".typing input", "Hello?")
            await second.page.press(".typing input", "Enter")
            await second.page.wait_for_selector(".problem h2")
            assert await second.page.inner_text(".problem h2") == "All places are taken"


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_a_key_is_asked_for_kept_for_the_tab_and_used(chromium: str, tmp_path: Path) -> None:
    model = ScriptedModel("Yes.")
    with (
        listening(model.app) as address,
        serving(scripted_voice(address, tmp_path), api_keys=("mk-right",)) as url,
    ):
        async with browsing(chromium) as browser:
            page = (await visit(browser, url, view="key")).page
            await page.get_by_label("API key").fill("mk-right")
            await page.keyboard.press("Enter")
            await page.wait_for_selector(".talk-view")
            await page.evaluate("sessionStorage.clear()")
            await page.fill(".typing input", "Hello?")
            await page.press(".typing input", "Enter")
            for key, then in (("mk-wrong", "That key was not accepted"), ("mk-right", "")):
                await page.wait_for_selector(".problem input")
                await page.fill(".problem input", key)
                await page.press(".problem input", "Enter")
                if then:
                    await page.wait_for_function(
                        "(t) => document.querySelector('.problem h2')?.textContent === t", arg=then
                    )
            await page.wait_for_selector(".problem", state="hidden")
            await state(page, "speaking")  # what was typed before the key was asked for
            assert await page.inner_text(".said") == "Hello?"
            assert await page.evaluate("sessionStorage['motet.key']") == "mk-right"
            assert await page.evaluate("JSON.stringify(localStorage)") == "{}"
