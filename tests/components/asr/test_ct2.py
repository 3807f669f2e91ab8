"""Streaming transcription: one final transcript per utterance, in order, early, and true."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from difflib import SequenceMatcher

import numpy as np
import pytest
from hearscript import Script, collect, texts

from motet.components.asr.checks import normalized
from motet.components.asr.ct2 import Ct2Asr
from motet.components.base import Context, Setup
from motet.components.errors import ComponentFailed
from motet.components.frames import (
    Audio,
    Commit,
    Fault,
    Frame,
    Transcript,
    TranscriptionSettings,
    TurnSettings,
)
from motet.components.models import is_installed
from motet.components.turn.silence import SilenceTurn
from motet.components.vad.silero import SileroVad

pytestmark = [
    pytest.mark.skipif(not is_installed("whisper-tiny-en"), reason="the weights aren't installed"),
    pytest.mark.timeout(60),
]

PARIS = "What time is it in Paris right now?"
FOX = "The quick brown fox jumps over the lazy dog."
FINALS = TranscriptionSettings(partials=False)


@pytest.fixture(scope="module")
def loaded():
    """One engine for the module; its batcher belongs to each test's loop."""
    component = Ct2Asr(Setup("asr"))
    asyncio.run(component.load())
    return component


@pytest.fixture
async def asr(loaded):
    component = Ct2Asr(Setup("asr"))
    component._engine = loaded._engine
    from motet.components.batching import Batcher

    component._batcher = Batcher(loaded._engine.transcribe, size=8, name="asr")
    yield component
    await component.close()


async def test_an_utterance_gets_one_final_transcript(asr, say):
    script = Script().then(FINALS).utterance(say(PARIS))
    (final,) = await collect(asr, script)
    assert normalized(final.text) == normalized(PARIS)
    assert (final.final, final.utterance, final.language) == (True, 1, "en")
    assert final.audio_ms == script.place_ms
    assert final.compute_ms > 0
    assert final.wait_ms > 0
    assert -0.5 < final.logprob < 0


async def test_the_decode_of_the_pause_is_that_of_the_end(asr, say):
    script = Script().then(FINALS).start().audio(say(PARIS)).silence(160).pause().idle()
    (final,) = await collect(asr, script.silence(340).stop())
    assert normalized(final.text) == normalized(PARIS)
    assert asr._batcher.items == 1
    assert final.wait_ms < 20


async def test_speech_after_a_pause_is_in_the_transcript(asr, say):
    script = Script().then(FINALS).start().audio(say(PARIS)).silence(200).pause().idle()
    script.silence(300).audio(say(FOX)).silence(200).pause().silence(300).stop()
    assert texts(await collect(asr, script)) == [normalized(f"{PARIS} {FOX}")]


async def test_a_commit_in_mid_speech_decodes_what_came_since_the_pause(asr, say):
    script = Script().then(FINALS).start().audio(say(PARIS)).silence(200).pause().idle()
    script.silence(300).audio(say(FOX)).stop()
    assert texts(await collect(asr, script)) == [normalized(f"{PARIS} {FOX}")]


async def test_transcripts_come_in_order_and_none_for_the_dropped(asr, say):
    script = Script().then(FINALS).utterance(np.tile(say(FOX), 3)).utterance(say("Never mind."))
    script.start().audio(say(PARIS)).silence(160).pause().stop(dropped=True)
    script.start().silence(500).stop().utterance(say(PARIS))
    frames = await collect(asr, script)
    assert [frame.utterance for frame in frames] == [1, 2, 4, 5]
    assert texts(frames)[1:] == ["never mind", "", normalized(PARIS)]


async def test_partials_grow_and_the_final_begins_with_them(asr, say):
    speech, script = say(f"{PARIS} {FOX}"), Script().start()
    for n in range(0, len(speech), 8192):
        script.audio(speech[n : n + 8192]).idle()
    frames = await collect(asr, script.silence(160).pause().silence(340).stop())
    partials = texts(frames, final=False)
    assert len(partials) >= 2
    for shorter, longer in zip(partials, [*partials[1:], *texts(frames)], strict=True):
        assert longer.startswith(shorter)
        assert len(longer) > len(shorter) or longer == texts(frames)[0]


LONG = [
    "My sister moved to Norway last winter.",
    "She works in a small library in the city.",
    "The rent is high, but the view is lovely.",
    "On weekends she walks up the hill with her dog.",
    "He is old and sleeps most of the day.",
    "I visited them in May when the snow was gone.",
    "We took a boat to an island and had lunch there.",
    "The fish was fresh and the bread still warm.",
    "A storm came in the afternoon and we had to stay.",
    "The next morning the sea was as flat as a mirror.",
    "We came home late and slept very well.",
    "Next year I want to bring my parents along.",
    "My mother is afraid of boats, so that may be hard.",
    "Perhaps we can find a place that has a bridge.",
]


def alike(text: str, sentences: list[str]) -> float:
    """How much of the words is right and in order, 0..1."""
    expected = normalized(" ".join(sentences)).split()
    return SequenceMatcher(None, normalized(text).split(), expected, autojunk=False).ratio()


async def test_more_than_one_window_is_cut_at_pauses_and_joined(asr, say):
    script = Script().then(FINALS).start()
    for sentence in LONG:
        script.audio(say(sentence)).silence(400).idle()
    assert script.place_ms > 35_000
    (final,) = await collect(asr, script.pause().stop())
    assert alike(final.text, LONG) > 0.95
    assert asr._batcher.items >= 2


async def test_what_stood_before_a_pause_of_a_long_speech_is_not_decoded_again(asr, say):
    script, lengths = Script().then(FINALS).start(), []
    real = asr._engine.transcribe

    def measured(requests):
        lengths.extend(request.duration_s for request in requests)
        return real(requests)

    asr._batcher._infer = measured
    for n, sentence in enumerate(LONG[:8]):
        script.audio(say(sentence)).silence(200)
        if n % 2:
            script.pause().silence(200).idle()
    (final,) = await collect(asr, script.stop())
    assert alike(final.text, LONG[:8]) > 0.95
    assert script.place_ms > 18_000
    assert max(lengths) < 16


async def test_silence_and_hum_give_no_text(asr):
    hum = np.random.default_rng(2).normal(0, 900, 64_000)
    hum = np.convolve(hum, np.ones(40) / 40, "same").astype(np.int16)
    script = Script().then(FINALS).start().silence(3000).stop()
    script.start().audio(hum, 0.4).stop().start().audio(hum, 0.1).stop()
    assert texts(await collect(asr, script)) == ["", "", ""]


def fail_once(asr) -> None:
    """Its next decode breaks, those after it don't."""
    real = asr._engine.transcribe

    def broken(requests):
        asr._batcher._infer = real
        raise RuntimeError("the engine hiccuped")

    asr._batcher._infer = broken


async def test_a_failing_decode_is_a_fault_of_its_utterance_alone(asr, say):
    fail_once(asr)
    script = Script().then(FINALS).start().audio(say(PARIS)).stop().idle().utterance(say(FOX))
    fault, final = await collect(asr, script)
    assert isinstance(fault, Fault)
    assert (fault.node, fault.code, fault.utterance) == ("asr", ComponentFailed.code, 1)
    assert "hiccuped" in fault.message
    assert normalized(final.text) == normalized(FOX)


async def test_a_failed_early_decode_is_tried_again_at_the_end(asr, say):
    fail_once(asr)
    script = Script().then(FINALS).start().audio(say(PARIS)).silence(160).pause().idle()
    assert texts(await collect(asr, script.stop())) == [normalized(PARIS)]


async def test_a_language_that_the_model_lacks_ends_nothing(asr, say, caplog):
    script = Script().then(TranscriptionSettings(language="de", partials=False))
    assert texts(await collect(asr, script.utterance(say(FOX)))) == [normalized(FOX)]
    assert "'de'" in caplog.text


async def test_a_prompt_biases_the_spelling(asr, say):
    named = say("My friend Kaitlyn Smythe lives here.")
    plain = await collect(asr, Script().then(FINALS).utterance(named))
    prompt = "A letter about Kaitlyn Smythe, Kaitlyn Smythe's house, and the friends of Smythe."
    hinted = TranscriptionSettings(prompt=prompt, partials=False)
    told = await collect(asr, Script().then(hinted).utterance(named))
    assert "kaitlyn smythe" in texts(told)[0]
    assert texts(plain)[0].startswith("my friend")


async def test_sessions_share_the_engine_and_hear_themselves(asr, say):
    spoken = [f"Number {n} is my favourite." for n in ("three", "four", "six", "nine")] * 2
    scripts = [Script().then(FINALS).utterance(say(text)) for text in spoken]
    answers = await asyncio.gather(*(collect(asr, script) for script in scripts))
    digits = {"three": "3", "four": "4", "six": "6", "nine": "9"}
    for text, frames in zip(spoken, answers, strict=True):
        word = text.split()[1]
        assert {word, digits[word]} & set(texts(frames)[0].split())
    assert asr._batcher.batches < len(spoken)


async def test_a_hang_up_in_mid_decode_leaves_nothing(asr, say):
    before = asyncio.all_tasks()
    script = Script().start().audio(say(PARIS)).pause().then(TurnSettings()).forever()
    run = asr.run(script.play(asr), Context())
    assert isinstance(await anext(run), Transcript | TurnSettings)
    await run.aclose()
    serving = {asr._batcher._task}
    assert asyncio.all_tasks() - serving == before


async def test_the_whole_path_hears_the_first_word_at_any_rate(asr, say):
    import soxr

    speech = say(FOX)[800:]
    stream = soxr.resample(np.concatenate((speech, np.zeros(24_000, np.int16))), 16_000, 24_000)

    async def microphone() -> AsyncIterator[Frame]:
        yield FINALS
        for n in range(0, len(stream), 480):
            yield Audio(stream[n : n + 480], 24_000, n / 24)

    vad, turn = SileroVad(Setup("vad")), SilenceTurn(Setup("turn"))
    await vad.load()
    marked = turn.run(vad.run(microphone(), Context()), Context())
    frames = [frame async for frame in asr.run(marked, Context())]
    await vad.close()
    assert texts(frames) == [normalized(FOX)]


async def test_a_commit_of_silence_is_an_empty_transcript(asr, quiet):
    async def microphone() -> AsyncIterator[Frame]:
        yield TurnSettings(mode="manual")
        yield Audio(quiet(3000), 16_000)
        yield Commit()

    vad, turn = SileroVad(Setup("vad")), SilenceTurn(Setup("turn"))
    await vad.load()
    marked = turn.run(vad.run(microphone(), Context()), Context())
    frames = [frame async for frame in asr.run(marked, Context())]
    await vad.close()
    assert texts(frames) == [""]
