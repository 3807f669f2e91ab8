"""Hibari speaks what it is given: Whisper hears the words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest
from running import ask

from motet.components.base import Setup
from motet.components.errors import MissingRequirement
from motet.components.frames import Audio, Frame, Samples, Spoken, TextDelta, Voice
from motet.components.registry import component_class

pytestmark = pytest.mark.timeout(60)

pytest.importorskip("hibari")
pytest.importorskip("faster_whisper")

from motet.components.tts.hibari import HibariTts  # noqa: E402

from .hearing import hear  # noqa: E402


@pytest.fixture
async def hibari() -> AsyncIterator[HibariTts]:
    tts = HibariTts(Setup("tts"))
    await tts.load()
    yield tts
    await tts.close()


async def speak(tts: HibariTts, *frames: Frame) -> tuple[Samples, list[Spoken]]:
    out = await ask(tts, *frames)
    pcm = np.concatenate([frame.pcm for frame in out if isinstance(frame, Audio)])
    return pcm, [frame for frame in out if isinstance(frame, Spoken)]


async def test_markdown_is_heard_as_words(hibari: HibariTts) -> None:
    text = (
        "Sure, the **capital** of France is [Paris](https://a.b). ✅\n```py\nx = 1\n```\n"
        "It costs $3.14 today. Dr. Lee uses `read_file` at home."
    )
    pcm, spoken = await speak(hibari, *(TextDelta(char) for char in text))
    heard = hear(pcm, hibari.rate_hz)
    for words in ("capital of france is paris", "3.14", "lee uses read file at home"):
        assert words in heard
    for noise in ("asterisk", "star", "https", "slash", "x equals"):
        assert noise not in heard
    assert "".join(clause.text for clause in spoken) == text
    assert spoken[0].text == "Sure, the **capital** of France is [Paris](https://a.b). "


async def test_length_loudness_and_pauses_are_those_of_speech(hibari: HibariTts) -> None:
    text = "The river runs through the old town. It meets the sea behind the harbour wall."
    pcm, spoken = await speak(hibari, TextDelta(text))
    seconds = len(pcm) / hibari.rate_hz
    assert 10 < len(text) / seconds < 22
    level = np.abs(pcm.astype(np.float64) / 32768)
    rms_db = 20 * np.log10(np.sqrt(np.mean(level**2)))
    assert -26 < rms_db < -14
    assert level.max() <= 0.96
    frames = level[: len(level) // 240 * 240].reshape(-1, 240).max(axis=1) > 0.01
    quiet_ms, longest_ms = 0, 0
    for loud in frames:
        quiet_ms = 0 if loud else quiet_ms + 10
        longest_ms = max(longest_ms, quiet_ms)
    assert 120 <= longest_ms <= 350
    assert spoken[0].end_ms == spoken[1].start_ms


async def test_speed_changes_length_and_not_the_words(hibari: HibariTts) -> None:
    text = "The weather is nice today and we are going to the park with our friends."
    plain, _ = await speak(hibari, TextDelta(text))
    wanted = text.lower().strip(".").split()
    for speed in (0.25, 0.5, 1.5, 2.0):
        pcm, _ = await speak(hibari, Voice(speed=speed), TextDelta(text))
        assert len(plain) / len(pcm) == pytest.approx(speed, rel=0.12)
        if speed == 0.25:
            continue  # half a minute of listening would prove little
        heard = hear(pcm, hibari.rate_hz).replace(".", "").split()
        assert sum(word in heard for word in wanted) / len(wanted) >= 0.75


async def test_many_sessions_share_one_model_and_the_loop_stays_free(hibari: HibariTts) -> None:
    worst_s = 0.0

    async def watch() -> None:
        nonlocal worst_s
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(0.005)
            worst_s = max(worst_s, loop.time() - before)

    watcher = asyncio.create_task(watch())
    alone, _ = await speak(hibari, TextDelta("This is my own sentence."))
    together = await asyncio.gather(
        *(speak(hibari, TextDelta("This is my own sentence.")) for _ in range(8))
    )
    watcher.cancel()
    assert all(len(pcm) == pytest.approx(len(alone), rel=0.05) for pcm, _ in together)
    assert worst_s < 0.25


async def test_voices_are_those_that_are_here(
    hibari: HibariTts, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("HIBARI_HOME", str(tmp_path))
    assert hibari.voices() == ["heart"]
    assert hibari.pick("alloy") == "heart"
    assert HibariTts.requirements(Setup("tts", model="heart")) == []
    assert hibari.pick(None) == "heart"
    lacks = HibariTts.requirements(Setup("tts", model="emma"))
    assert "emma" in lacks[0]
    assert "heart" in lacks[0]
    with pytest.raises(MissingRequirement, match="emma"):
        await HibariTts(Setup("tts", model="emma")).load()


def test_the_registry_knows_it() -> None:
    assert component_class("tts/hibari") is HibariTts
