"""The engine-independent half of speaking: order, bounds, faults and the shape of the audio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import numpy as np
import pytest
from running import ask, stream
from tonefake import Tone

from motet.components.base import Context, Setup
from motet.components.errors import BadInput, ComponentFailed
from motet.components.frames import Audio, Clear, Control, Frame, Spoken, TextDelta, Voice
from motet.components.tts.shape import clip, fade, soften, stretch, trim
from motet.components.tts.speaker import no_voice


@pytest.fixture
async def tone() -> AsyncIterator[Tone]:
    tts = Tone(Setup("tts"))
    await tts.load()
    tts.asked.clear()
    yield tts
    await tts.close()


async def test_slices_join_and_audio_is_continuous(tone: Tone) -> None:
    text = "This is one.\n```\ncode\n```\nThis is **two**, and more: `x`. ✅\n\nThe last."
    out = await ask(tone, *(TextDelta(char) for char in text))
    spoken = [frame for frame in out if isinstance(frame, Spoken)]
    assert "".join(frame.text for frame in spoken) == text
    at_ms = 0.0
    clause_end_ms = 0.0
    for frame in out:
        if isinstance(frame, Spoken):
            assert frame.start_ms == pytest.approx(clause_end_ms)
            assert at_ms == pytest.approx(clause_end_ms)
            clause_end_ms = frame.end_ms
        else:
            assert isinstance(frame, Audio)
            assert frame.rate_hz == 16000
            assert frame.start_ms == pytest.approx(at_ms)
            assert 0 < frame.duration_ms <= 60
            at_ms = frame.end_ms
    assert at_ms == pytest.approx(clause_end_ms)
    code = next(frame for frame in spoken if "code" in frame.text)
    assert code.start_ms == code.end_ms


async def test_silence_is_trimmed_and_pauses_are_between_clauses(tone: Tone) -> None:
    out = await ask(tone, TextDelta("Ten chars. Ten chars."))
    pcm = np.concatenate([frame.pcm for frame in out if isinstance(frame, Audio)])
    loud = np.flatnonzero(np.abs(pcm) > 300) / 16
    assert loud[0] < 30
    assert len(pcm) / 16 - loud[-1] < 80
    gap_ms = np.diff(loud).max()
    assert 150 <= gap_ms <= 250
    assert np.abs(np.diff(pcm.astype(int))).max() < 2 * np.pi * 200 / 16000 * 9830 * 1.2


async def test_unspoken_text_is_ignored_and_controls_pass_in_place(tone: Tone) -> None:
    clear = Clear()
    out = await ask(
        tone, TextDelta("First one. S"), TextDelta('{"a": 1}', spoken=False), clear, TextDelta("o.")
    )
    assert [frame.text for frame in out if isinstance(frame, Spoken)] == ["First one. ", "So."]
    assert clear in out
    assert [type(f) for f in out if isinstance(f, Spoken | Control)] == [Spoken, Clear, Spoken]


async def test_voice_and_speed_count_from_the_next_clause(tone: Tone) -> None:
    await ask(
        tone,
        Voice("high", 1.5),
        TextDelta("First one. Second"),
        Voice("nobody", 4.0),
        TextDelta(" one."),
    )
    assert tone.asked == [("First one.", "high", 1.5), ("Second one.", "low", 2.0)]


async def test_a_voice_that_must_be_is_refused_before_a_word_is_spoken(tone: Tone) -> None:
    with pytest.raises(BadInput, match="no voice 'nobody'; possible: low, high") as caught:
        await ask(tone, Voice("nobody", exact=True), TextDelta("A word."))
    assert caught.value.param == "voice"
    assert tone.asked == []
    await ask(tone, Voice("high", exact=True), TextDelta("A word."))
    assert tone.asked == [("A word.", "high", 1.0)]


def test_of_many_voices_some_are_named() -> None:
    many = [f"p{n}" for n in range(904)]
    message = str(no_voice("x" * 999, many, where="tts"))
    assert "p19 and 884 more" in message
    assert len(message) < 300


@pytest.mark.parametrize("speed", [0.25, 0.5, 1.0, 2.0, 4.0, 99.0])
async def test_speed_sets_the_length(tone: Tone, speed: float) -> None:
    out = await ask(tone, Voice(speed=speed), TextDelta("x" * 100))
    end_ms = max(frame.end_ms for frame in out)  # type: ignore[attr-defined]
    assert end_ms == pytest.approx(2000 / min(speed, 4.0), rel=0.08, abs=100)


@pytest.mark.parametrize("word", ["break", "nan"])
async def test_a_failing_clause_is_named_without_its_words(tone: Tone, word: str) -> None:
    out: list[Frame] = []
    with pytest.raises(ComponentFailed, match=r"clause 2 \(\d+ characters\)") as caught:
        async for frame in tone.run(stream(TextDelta(f"All well. The {word} is here.")), Context()):
            out.append(frame)
    assert word + " is" not in str(caught.value)
    assert any(isinstance(frame, Audio) for frame in out)
    assert await ask(tone, TextDelta("Still works."))


async def test_no_more_than_one_clause_is_made_ahead(tone: Tone) -> None:
    text = " ".join(f"This is sentence number {n}." for n in range(50))
    async with aclosing(tone.run(stream(TextDelta(text)), Context())) as out:  # type: ignore[type-var]
        assert isinstance(await anext(out), Spoken)
        await asyncio.sleep(0.2)
        assert len(tone.asked) == 2
    await asyncio.sleep(0.05)
    assert len(tone.asked) == 2


async def test_the_first_clause_is_spoken_while_the_text_is_still_written(tone: Tone) -> None:
    wait = asyncio.Event()

    async def writing() -> AsyncIterator[Frame]:
        yield TextDelta("Sure, I can do that for you, ")
        yield TextDelta("and")
        await wait.wait()
        yield TextDelta(" more.")

    out = tone.run(writing(), Context())
    first = await asyncio.wait_for(anext(out), 1)
    assert isinstance(first, Spoken)
    assert first.text == "Sure, I can do that for you, "
    assert isinstance(await asyncio.wait_for(anext(out), 1), Audio)
    wait.set()
    rest = [frame async for frame in out]
    assert [frame.text for frame in rest if isinstance(frame, Spoken)] == ["and more."]


async def test_closing_leaves_no_task(tone: Tone) -> None:
    before = asyncio.all_tasks()
    forever = asyncio.Event()

    async def stuck() -> AsyncIterator[Frame]:
        yield TextDelta("One sentence. And")
        await forever.wait()

    out = tone.run(stuck(), Context())
    await anext(out)
    await out.aclose()  # type: ignore[attr-defined]
    assert asyncio.all_tasks() == before


def test_clip_bends_peaks_and_ends_at_zero() -> None:
    loud = np.sin(np.arange(16000) * 0.1).astype(np.float32) * 5
    pcm = clip(loud, 16000, 1.0)
    assert pcm[0] == 0
    assert pcm[-1] == 0
    assert np.abs(pcm).max() <= 0.951 * 32767
    quiet = np.linspace(-0.79, 0.79, 100, dtype=np.float32)
    assert np.array_equal(soften(quiet), quiet)


def test_silence_and_next_to_nothing_are_no_trouble() -> None:
    for samples in (np.zeros(0), np.zeros(5), np.zeros(16000), np.ones(3)):
        shaped = fade(trim(samples.astype(np.float32), 16000), 16000)
        assert np.isfinite(shaped).all()
        assert len(stretch(shaped, 16000, 2.0)) <= 2 * len(samples)


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.7, 2.0])
def test_stretching_keeps_pitch_and_loudness(factor: float) -> None:
    rate_hz = 24000
    tone = 0.3 * np.sin(np.arange(rate_hz) * 2 * np.pi * 220 / rate_hz).astype(np.float32)
    out = stretch(tone, rate_hz, factor)
    assert len(out) == int(rate_hz * factor)
    middle = out[len(out) // 4 : 3 * len(out) // 4]
    peak_hz = np.argmax(np.abs(np.fft.rfft(middle))) * rate_hz / len(middle)
    assert peak_hz == pytest.approx(220, abs=rate_hz / len(middle) + 2)
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(0.3 / np.sqrt(2), rel=0.1)
