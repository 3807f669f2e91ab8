"""The voice pipeline end to end, on real models and real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest
from caller import calling, quiet, speech, transcribe, words
from serving import serving

from motet.pipelines import load

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def voice() -> Iterator[str]:
    with serving(load("voice")) as address:
        yield address


def overlap(said: str, heard: str) -> float:
    """Share of the words of `said` that are in `heard`."""
    wanted, got = words(said), set(words(heard))
    return sum(word in got for word in wanted) / max(1, len(wanted))


async def test_a_spoken_question_is_answered_in_speech_that_says_the_reply(voice: str) -> None:
    async with calling(voice, "model=voice&timings=1") as caller:
        await caller.say(quiet(0.3), speech("What is the capital of France?"), quiet(1.0))
        done = await caller.until("response.done")
        heard = await caller.until("conversation.item.input_audio_transcription.completed")
        timings = await caller.until("motet.turn.timings")
    assert words(heard["transcript"]) == words("What is the capital of France?")
    assert done["response"]["status"] == "completed"
    reply = done["response"]["output"][0]["content"][0]["transcript"]
    assert "Paris" in reply
    audio = caller.audio()
    assert np.abs(audio).max() > 3000
    assert overlap(reply, transcribe(audio)) >= 0.75
    stages = [value for name, value in timings.items() if name.endswith("_ms")]
    assert all(value >= 0 for value in stages)


async def test_a_first_word_without_any_silence_before_it_is_heard(voice: str) -> None:
    async with calling(voice) as caller:
        await caller.say(speech("One two three four five."), quiet(1.0))
        heard = await caller.until("conversation.item.input_audio_transcription.completed")
    assert words(heard["transcript"])[0] in ("one", "1")


async def test_barge_in_ends_the_reply_and_the_next_question_is_answered(voice: str) -> None:
    async with calling(voice) as caller:
        await caller.send(
            "session.update",
            session={"type": "realtime", "instructions": "Tell long stories of many sentences."},
        )
        await caller.say(speech("Tell me a very long story about a fox."), quiet(0.7))
        first = await caller.until("response.output_audio.delta")
        await caller.say(speech("Stop. What is the capital of France?"), quiet(1.0))
        done = await caller.until(
            "response.done", where=lambda e: e["response"]["id"] == first["response_id"]
        )
        second = await caller.until(
            # A speaker who pauses behind "Stop." has the answer to that cut off as well.
            "response.done",
            where=lambda e: e["response"]["status"] != "cancelled",
        )
    place = caller.events.index(done)
    later = [e for e in caller.events[place + 1 :] if e.get("response_id") == first["response_id"]]
    assert later == []
    assert second["response"]["status"] in ("completed", "incomplete")
    started = [k for k in caller.kinds() if k == "response.created"]
    finished = [k for k in caller.kinds() if k == "response.done"]
    assert len(started) == len(finished)


async def test_silence_and_noise_get_no_answer(voice: str) -> None:
    rng = np.random.default_rng(3)
    async with calling(voice) as caller:
        await caller.say(quiet(1.0), pace=4)
        await caller.say((rng.normal(0, 800, 48_000)).astype(np.int16), quiet(1.0), pace=4)
        await asyncio.sleep(1.0)
        assert "response.created" not in caller.kinds()
        await caller.say(speech("What is two plus two?"), quiet(1.0))
        assert (await caller.until("response.done"))["response"]["status"] == "completed"


async def test_audio_that_simply_ceases_still_ends_the_turn(voice: str) -> None:
    async with calling(voice) as caller:
        await caller.say(speech("What is the capital of France?"))
        done = await caller.until("response.done")
    assert done["response"]["status"] == "completed"


async def test_text_in_text_out_costs_no_speech(voice: str) -> None:
    async with calling(voice) as caller:
        content = [{"type": "input_text", "text": "Say the word hello."}]
        item = {"type": "message", "role": "user", "content": content}
        await caller.send("conversation.item.create", item=item)
        await caller.send("response.create", response={"output_modalities": ["text"]})
        done = await caller.until("response.done")
    assert done["response"]["output"][0]["content"][0]["type"] == "output_text"
    assert len(caller.audio()) == 0


async def test_several_callers_get_their_own_answers(voice: str) -> None:
    questions = {"What is the capital of France?": "Paris", "What is the capital of Italy?": "Rome"}

    async def ask(question: str) -> str:
        async with calling(voice) as caller:
            await caller.say(quiet(0.2), speech(question), quiet(1.0))
            done = await caller.until("response.done")
            return str(done["response"]["output"][0]["content"][0]["transcript"])

    replies = await asyncio.gather(*(ask(question) for question in questions))
    for reply, wanted in zip(replies, questions.values(), strict=True):
        assert wanted in reply
