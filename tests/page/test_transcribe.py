"""Recordings on the page: dropped, read as they come, listened to, downloaded, delivered."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from fastapi import FastAPI, Request
from playwright.async_api import Browser, Page

from motet.pipelines import Graph, load

from ..support.serving import listening, serving
from .conftest import browsing, visit, write_wav
from .test_layout import CONTRAST

pytestmark = pytest.mark.asyncio(loop_scope="module")

hibari = pytest.importorskip("hibari")
pytest.importorskip("faster_whisper")
pytest.importorskip("procrastinate")

TEXT = "The river carried the small boat past the old stone bridge. Nobody saw it go."
FORMATS = {
    "Text": "speech.txt",
    "SRT": "speech.srt",
    "WebVTT": "speech.vtt",
    "JSON": "speech.json",
    "JSON with words": "speech.verbose.json",
    "JSON with speakers": "speech.diarized.json",
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """The shipped pipeline, with the smallest model."""
    spec = yaml.safe_load((Path(__file__).parents[2] / "configs" / "transcribe.yaml").read_text())
    spec["nodes"]["asr"] |= {"model": "whisper-tiny-en"}
    file = tmp_path_factory.mktemp("graph") / "transcribe.yaml"
    file.write_text(yaml.safe_dump(spec))
    return load(file)


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pcm = (np.clip(hibari.Hibari()(TEXT, seed=0), -1, 1) * 20_000).astype(np.int16)
    return write_wav(tmp_path_factory.mktemp("audio") / "speech.wav", pcm)


@pytest.fixture(scope="module")
def address(graph: Graph, database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("data")
    with serving(graph, data_dir=folder, database_url=database, allow_loopback_urls=True) as url:
        yield url


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


async def drop(page: Page, file: Path) -> None:
    """Let a file fall on the page, as from a desktop."""
    transfer = await page.evaluate_handle(
        "([data, name]) => { const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));"
        " const transfer = new DataTransfer();"
        " transfer.items.add(new File([bytes], name, { type: 'audio/wav' })); return transfer; }",
        [base64.b64encode(file.read_bytes()).decode(), file.name],
    )
    await page.dispatch_event(".transcribe-view", "dragover", {"dataTransfer": transfer})
    assert await page.locator(".transcribe-view.dropping").count() == 1
    await page.dispatch_event(".transcribe-view", "drop", {"dataTransfer": transfer})


async def downloads(page: Page) -> dict[str, str]:
    found: dict[str, str] = {}
    for label, name in FORMATS.items():
        async with page.expect_download() as told:
            await page.get_by_role("button", name=label, exact=True).click()
        download = await told.value
        assert download.suggested_filename == name
        found[label] = Path(await download.path()).read_text()
    return found


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_dropped_file_is_read_heard_and_taken_away(
    browser: Browser, address: str, speech: Path
) -> None:
    seen = await visit(browser, f"{address}/#transcribe", view="transcribe")
    page = seen.page
    await page.wait_for_selector("text=Webhooks")
    await drop(page, speech)
    await page.wait_for_selector(".w", timeout=60_000)
    spoken = await page.locator(".w").all_inner_texts()
    assert len(set(words(TEXT)) - set(words(" ".join(spoken)))) <= 2, spoken
    assert "Speaker A" in await page.inner_text(".speakers")
    last = page.locator(".w").nth(len(spoken) // 2)
    await last.click()
    await page.wait_for_selector(".w.lit")
    lit = await page.get_attribute(".w.lit", "data-at")
    assert float(lit or "nan") >= float(await last.get_attribute("data-at") or "nan")
    await page.get_by_role("button", name="Pause").click()
    saved = await downloads(page)
    assert words(saved["Text"]) == words(" ".join(spoken))
    assert saved["SRT"].startswith("1\n00:00:0")
    assert saved["WebVTT"].startswith("WEBVTT")
    assert len(json.loads(saved["JSON with words"])["words"]) == len(spoken)
    assert json.loads(saved["JSON with speakers"])["segments"][0]["speaker"] == "A"
    await seen.check_looks(CONTRAST)
    # On a phone, as the looks leave it, the text comes first.
    tops = await page.evaluate(
        "['.transcript h1', '.paragraphs', '.saves', '.side'].map((one) =>"
        " document.querySelector(one).getBoundingClientRect().top)"
    )
    assert tops == sorted(tops)
    await page.reload()
    await page.wait_for_selector(".w")
    assert await page.locator(".w").all_inner_texts() == spoken
    assert await page.is_visible("text=Choose its file to listen")
    await page.get_by_role("button", name="Remove speech.wav").click()
    await page.get_by_role("heading", name="Drop a recording.").wait_for()
    await seen.check_clean()


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_delivery_is_watched_and_sent_again(
    browser: Browser, address: str, speech: Path
) -> None:
    got: list[Any] = []
    receiver = FastAPI()

    @receiver.post("/hook")
    async def hook(request: Request) -> None:
        got.append(await request.json())

    with listening(receiver) as url:
        page = (await visit(browser, f"{address}/#transcribe", view="transcribe")).page
        await page.get_by_role("button", name="Webhooks").click()
        await page.fill("[name=url]", f"{url}/hook")
        await page.press("[name=url]", "Enter")
        await page.wait_for_selector(".said-once code")
        assert (await page.inner_text(".said-once code")).startswith("whsec_")
        await page.keyboard.press("Escape")
        await drop(page, speech)
        await page.wait_for_selector(".w", timeout=60_000)
        await page.get_by_role("button", name="Webhooks").click()
        await page.get_by_text("delivered, 1 attempt").click()
        await page.get_by_text("HTTP 200 after").wait_for()
        await page.get_by_role("button", name="Send again").click()
        for _ in range(100):
            if len(got) == 2:
                break
            await asyncio.sleep(0.1)
        await page.get_by_role("button", name="Remove", exact=True).click()
        await page.get_by_text("No webhook is told").wait_for()
    assert [event["type"] for event in got] == ["job.completed"] * 2


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_server_without_jobs_answers_as_it_goes(
    chromium: str, graph: Graph, speech: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motet.streaming.jobs.door.has_jobs", lambda _: False)
    garbage = tmp_path / "noise.wav"
    garbage.write_bytes(b"no audio at all" * 100)
    with serving(graph, data_dir=tmp_path) as url:
        async with browsing(chromium) as browser:
            page = (await visit(browser, f"{url}/#transcribe", view="transcribe")).page
            await drop(page, speech)
            await page.wait_for_selector(".paragraph .start", timeout=60_000)
            said = await page.inner_text(".paragraphs")
            assert await page.get_by_role("button", name="Webhooks").count() == 0
            async with page.expect_download() as told:
                await page.get_by_role("button", name="SRT", exact=True).click()
            srt = Path(await (await told.value).path()).read_text()
            await drop(page, garbage)
            await page.wait_for_selector(".about.bad")
            assert "It failed" in await page.inner_text(".about.bad")
    assert {"river", "bridge"} <= set(words(said))
    assert {"river", "bridge"} <= set(words(srt))


PARTS = """async (segments) => {
  const { paragraphs, speakers, indexAt } = await import("/page/transcribe/paragraphs.js");
  const parts = paragraphs(segments);
  const starts = parts.flatMap(({ words }) => words.map(({ startS }) => startS));
  return [
    parts.map(({ speaker, words }) => [speaker, words.map(({ text }) => text).join(" ")]),
    speakers(parts),
    [-1, 0.9, 1, 1.4, 99].map((at) => indexAt(starts, at)),
  ];
}"""


@pytest.mark.timeout(40)
async def test_paragraphs_follow_speakers_and_words_their_times(
    browser: Browser, address: str
) -> None:
    def word(text: str, start: float, speaker: str | None = None) -> dict[str, Any]:
        shape = {"word": f" {text}", "start": start, "end": start + 0.5}
        return shape | ({"speaker": speaker} if speaker else {})

    first = {"speaker": "A", "words": [word("Good", 1.0), word("day.", 1.5), word("Hi!", 2.0, "B")]}
    second = {"speaker": "B", "words": [word("Well", 2.5), word("then.", 9.0)]}
    page = (await visit(browser, f"{address}/#transcribe", view="transcribe")).page
    parts, spoken, found = await page.evaluate(PARTS, [first, second])
    assert parts == [["A", "Good day."], ["B", "Hi! Well"], ["B", "then."]]
    assert spoken == [["A", 1.0], ["B", 1.5]]
    assert found == [-1, -1, 0, 0, 4]
