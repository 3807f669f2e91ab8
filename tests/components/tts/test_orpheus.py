"""tts/orpheus: exact frames from any cut of the stream, and its server's answers and faults."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import ask
from serving import listening
from speechfakes import SpeechServer, written

from motet.components.base import Setup
from motet.components.errors import BadInput, ComponentFailed
from motet.components.frames import AudioTokens, Frame, Spoken, TextDelta, Voice
from motet.components.tts.orpheus import OrpheusTts
from motet.components.tts.orpheustokens import OrpheusTokens

FRAMES = st.lists(st.lists(st.integers(0, 4095), min_size=7, max_size=7), max_size=5)


@given(FRAMES, st.lists(st.integers(1, 40), min_size=1))
def test_every_frame_comes_whole_however_the_text_is_cut(
    frames: list[list[int]], cuts: list[int]
) -> None:
    text = "<custom_token_1>" + written(frames) + "<custom_token_2>"
    tokens, found, at = OrpheusTokens(), [], 0
    while at < len(text):
        size = cuts[at % len(cuts)]
        found += tokens.push(text[at : at + size])
        at += size
    assert found == frames
    assert tokens.broken == 0


def test_code_0_is_kept() -> None:
    assert OrpheusTokens().push(written([[0] * 7])) == [[0] * 7]


@pytest.mark.parametrize("lost", range(7))
def test_a_slip_costs_one_frame_and_no_more(lost: int) -> None:
    frames = [[n] * 7 for n in range(4)]
    parts = written(frames).replace("><", "> <").split(" ")
    del parts[7 + lost]
    tokens = OrpheusTokens()
    assert tokens.push("".join(parts)) == [frames[0], *frames[2:]]
    assert tokens.broken == (1 if lost else 0)


@pytest.fixture
def server() -> Iterator[tuple[SpeechServer, str]]:
    speech = SpeechServer([[n, 0, 4095, n, n, n, n] for n in range(3)])
    with listening(speech.app) as address:
        yield speech, address


async def said(address: str, *frames: Frame) -> list[Frame]:
    options = {"base_url": f"{address}/v1"}
    component = OrpheusTts(Setup("tts", "orpheus", options))
    await component.load()

    try:
        return await ask(component, *frames)
    finally:
        await component.close()


async def test_clauses_become_codes_with_their_slices(server: tuple[SpeechServer, str]) -> None:
    speech, address = server
    text = "Well, hello **there** my friend. How are you today?"
    answers = await said(address, Voice("leo"), *(TextDelta(c) for c in text))
    spoken = [a for a in answers if isinstance(a, Spoken)]
    codes = [a.codes.tolist() for a in answers if isinstance(a, AudioTokens)]
    assert "".join(a.text for a in spoken) == text
    assert codes == speech.frames * len(spoken)
    assert [a.start_ms for a in spoken] == pytest.approx(
        [n * 3 * 2048 / 24 for n in range(len(spoken))]
    )
    prompts = [body["prompt"] for body in speech.asked]
    assert all("leo: " in prompt and "*" not in prompt for prompt in prompts)


async def test_unspoken_text_costs_nothing(server: tuple[SpeechServer, str]) -> None:
    speech, address = server
    assert await said(address, TextDelta("Hello there. ", spoken=False)) == []
    assert speech.asked == []


async def test_a_server_that_writes_no_speech_is_named(server: tuple[SpeechServer, str]) -> None:
    speech, address = server
    speech.frames = []
    with pytest.raises(ComponentFailed, match="no speech for a clause"):
        await said(address, TextDelta("Hello there, all of you."))


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ('{"error": {"message": "the engine died", "code": 500}}', "HTTP 500: the engine died"),
        ("", "the stream broke off before its end"),
    ],
)
async def test_a_server_that_breaks_amid_a_clause_is_heard(
    server: tuple[SpeechServer, str], last: str, told: str
) -> None:
    speech, address = server
    speech.last = last
    with pytest.raises(ComponentFailed, match=told):
        await said(address, TextDelta("Hello there, all of you."))


async def test_a_clause_may_end_by_its_reason_alone(server: tuple[SpeechServer, str]) -> None:
    speech, address = server
    speech.last = '{"choices": [{"text": "", "finish_reason": "stop"}]}'
    answers = await said(address, TextDelta("Hello there, all of you."))
    assert sum(isinstance(one, AudioTokens) for one in answers) == len(speech.frames)


async def test_a_speed_is_refused_not_ignored(server: tuple[SpeechServer, str]) -> None:
    with pytest.raises(BadInput, match=r"speed 1\.5 is not possible"):
        await said(server[1], Voice(None, 1.5), TextDelta("Hello."))


async def test_a_voice_that_must_be_is_refused(server: tuple[SpeechServer, str]) -> None:
    speech, address = server
    with pytest.raises(BadInput, match="no voice 'alloy'; possible: tara, leah"):
        await said(address, Voice("alloy", exact=True), TextDelta("Hello."))
    assert speech.asked == []
    await said(address, Voice("alloy"), TextDelta("Hello."))
    assert "tara: " in speech.asked[0]["prompt"]


def test_codes_are_what_the_codec_takes() -> None:
    frame = AudioTokens(np.array([1] * 7, np.int32))
    assert frame.codec == "snac_24khz"
