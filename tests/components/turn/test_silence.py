"""The turn detectors as components, behind the real VAD, on real speech."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from motet.components.base import Context, Setup
from motet.components.frames import (
    Audio,
    Frame,
    SpeechPaused,
    SpeechStarted,
    SpeechStopped,
    TranscriptionSettings,
    TurnSettings,
)
from motet.components.turn.silence import SilenceTurn
from motet.components.vad.silero import SileroVad

pytest.importorskip("onnxruntime")


async def source(*items: Frame | np.ndarray | float) -> AsyncIterator[Frame]:
    """Frames as they are, arrays as 20 ms chunks, numbers as seconds in which nothing comes."""
    start_ms = 0.0
    for item in items:
        if isinstance(item, Frame):
            yield item
        elif isinstance(item, float):
            await asyncio.sleep(item)
        else:
            for n in range(0, len(item), 320):
                yield Audio(item[n : n + 320], 16_000, start_ms)
                start_ms += 20


async def listen(turn, *items: Frame | np.ndarray | float) -> list[Frame]:
    vad = SileroVad(Setup("vad"))
    await vad.load()
    try:
        marked = vad.run(source(*items), Context())
        return [frame async for frame in turn.run(marked, Context())]
    finally:
        await vad.close()


def events(frames: list[Frame]) -> list[Frame]:
    return [frame for frame in frames if not isinstance(frame, Audio)]


async def test_a_sentence_is_one_utterance_with_its_pre_roll(say, quiet):
    speech = say("What time is it in Paris?")
    frames = await listen(SilenceTurn(Setup("turn")), quiet(1000), speech, quiet(1200))
    started, paused, stopped = events(frames)
    assert isinstance(started, SpeechStarted)
    assert 600 <= started.start_ms <= 900
    assert isinstance(paused, SpeechPaused)
    spoken_ms = 1000 + len(speech) / 16
    assert abs(paused.end_ms - spoken_ms) < 200
    assert isinstance(stopped, SpeechStopped)
    assert 500 <= stopped.end_ms - paused.end_ms < 550


async def test_speech_from_the_first_sample_is_whole(say, quiet):
    speech = say("One two three four five.")[800:]
    frames = await listen(SilenceTurn(Setup("turn")), speech, quiet(1000))
    audio = np.concatenate([frame.pcm for frame in frames if isinstance(frame, Audio)])
    assert np.array_equal(audio[: len(speech)], speech)


async def test_digits_dictated_with_pauses_are_one_turn_when_the_client_is_patient(say, quiet):
    pause = quiet(700)
    dictated = [
        part for digit in ("Four.", "One five.", "Five five.") for part in (say(digit), pause)
    ]
    patient = TurnSettings(silence_duration_ms=1000)
    frames = await listen(SilenceTurn(Setup("turn")), patient, *dictated, quiet(1200))
    assert sum(isinstance(frame, SpeechStarted) for frame in frames) == 1
    hasty = await listen(SilenceTurn(Setup("turn")), *dictated, quiet(1200))
    assert sum(isinstance(frame, SpeechStarted) for frame in hasty) == 3


@pytest.mark.parametrize("word", ["No.", "Yes.", "Stop."])
async def test_a_short_word_is_heard(say, quiet, word: str):
    frames = await listen(SilenceTurn(Setup("turn")), quiet(500), say(word), quiet(1000))
    assert [type(frame) for frame in events(frames)] == [SpeechStarted, SpeechPaused, SpeechStopped]


async def test_a_muted_microphone_ends_the_turn(say):
    speech, unmuted = say("What time is it in Paris?")[:16_000], asyncio.Event()

    async def microphone() -> AsyncIterator[Frame]:
        for n in range(0, len(speech), 320):
            yield Audio(speech[n : n + 320], 16_000, n / 16)
            await asyncio.sleep(0.01)
        await unmuted.wait()

    vad = SileroVad(Setup("vad"))
    await vad.load()
    turn = SilenceTurn(Setup("turn", options={"grace_ms": 100}))
    kinds: list[type[Frame]] = []
    async for frame in turn.run(vad.run(microphone(), Context()), Context()):
        kinds += [] if isinstance(frame, Audio) else [type(frame)]
        if isinstance(frame, SpeechStopped):
            unmuted.set()
    await vad.close()
    assert kinds == [SpeechStarted, SpeechPaused, SpeechStopped]


async def test_silence_and_noise_are_no_speech(quiet):
    fan = np.random.default_rng(3).normal(0, 600, 48_000)
    fan = np.convolve(fan, np.ones(12) / 12, "same").astype(np.int16)
    assert events(await listen(SilenceTurn(Setup("turn")), quiet(2000), fan, quiet(500))) == []


async def test_other_controls_pass_in_their_place(quiet):
    settings = TranscriptionSettings(prompt="Motet")
    frames = await listen(SilenceTurn(Setup("turn")), quiet(100), settings, quiet(100))
    assert events(frames) == [settings]


async def test_closing_a_run_leaves_no_task_behind(say):
    before = asyncio.all_tasks()
    turn = SilenceTurn(Setup("turn"))

    async def endless() -> AsyncIterator[Frame]:
        n = 0
        while True:
            await asyncio.sleep(0)
            yield Audio(np.zeros(512, np.int16), 16_000, n * 32.0, 0.9)
            n += 1

    run = turn.run(endless(), Context())
    assert isinstance(await anext(run), SpeechStarted)
    await run.aclose()
    assert asyncio.all_tasks() == before


async def test_an_error_of_the_source_comes_through():
    async def broken() -> AsyncIterator[Frame]:
        yield Audio(np.zeros(512, np.int16), 16_000, 0.0, 0.0)
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        _ = [frame async for frame in SilenceTurn(Setup("turn")).run(broken(), Context())]
