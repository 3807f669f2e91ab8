"""The Whisper engine on real speech: right alone and in batches, and not fooled by noise."""

from __future__ import annotations

import numpy as np
import pytest

from motet.components.asr.checks import normalized
from motet.components.asr.requests import Request
from motet.components.asr.whisper import Whisper
from motet.components.audio import to_float
from motet.components.errors import BadInput, MissingRequirement
from motet.components.models import CATALOGUE, is_installed, locate

SENTENCES = [
    "What time is it in Paris right now?",
    "The quick brown fox jumps over the lazy dog.",
    "I would like to know how the weather is going to be tomorrow.",
    "Never mind.",
]


@pytest.fixture(scope="module")
def engine() -> Whisper:
    if not is_installed("whisper-tiny-en"):
        pytest.skip("the weights aren't installed")
    return Whisper(locate("whisper-tiny-en"))


@pytest.fixture(scope="module")
def heard(say, quiet):
    """A sentence as a microphone hears it, in -1..1, with a little silence around."""

    def hear(text: str) -> np.ndarray:
        return to_float(np.concatenate((quiet(200), say(text), quiet(200))))

    return hear


def test_sentences_are_understood_alone_and_in_a_batch(engine, heard):
    requests = [Request(heard(text)) for text in SENTENCES]
    together = engine.transcribe(requests)
    for text, decoded in zip(SENTENCES, together, strict=True):
        assert normalized(decoded.text) == normalized(text)
        assert decoded.is_spoken(voiced_s=2.5)
        assert (decoded.tries, decoded.flaws, decoded.language) == (1, (), "en")
        assert decoded.compute_ms > 0
    alone = engine.transcribe(requests[:1])[0]
    assert (alone.text, alone.tokens) == (together[0].text, together[0].tokens)
    assert alone.logprob == pytest.approx(together[0].logprob, abs=0.02)


@pytest.mark.parametrize("word", ["No.", "Yes.", "Stop.", "Hello.", "Seven.", "Paris."])
def test_single_words_do_not_loop_on_a_short_window(engine, heard, word: str):
    request = Request(heard(word))
    assert request.frames == 1000
    (decoded,) = engine.transcribe([request])
    said = normalized(decoded.text)
    assert said in {normalized(word), "7"}


def test_a_loop_on_too_short_a_window_is_caught_and_decoded_again(engine, heard, monkeypatch):
    monkeypatch.setattr("motet.components.asr.requests._SHORTEST_FRAMES", 100)
    monkeypatch.setattr("motet.components.asr.requests._STEP_FRAMES", 20)
    requests = [Request(heard(word), silence_s=0.3) for word in ("No.", "Paris.", SENTENCES[0])]
    looped = [one for one in engine.decode_once(requests) if one.flaws]
    assert looped
    assert all({"repetition", "cut_off"} & set(one.flaws) for one in looped)
    found = engine.transcribe(requests)
    said = [normalized(one.text) for one in found]
    assert said == ["no", "paris", normalized(SENTENCES[0])]
    assert sum(one.tries > 1 for one in found) == len(looped)


@pytest.mark.parametrize("level", [0.0, 0.001, 0.02])
def test_silence_and_noise_are_not_speech(engine, level: float):
    noise = np.random.default_rng(1).normal(0, level, 48_000) if level else np.zeros(48_000)
    (decoded,) = engine.transcribe([Request(noise.astype(np.float32), tries=1)])
    assert not decoded.is_spoken(voiced_s=0.1)


def test_context_of_any_length_shares_a_batch_and_keeps_the_text(engine, heard):
    spoken = heard(SENTENCES[0])
    said = engine.tokens.encode(" Hello, how are you today? I am fine. It rains in London again.")
    requests = [Request(spoken, context=tuple((said * 9)[:length])) for length in (0, 5, 16, 40)]
    texts = {normalized(one.text) for one in engine.transcribe(requests)}
    assert texts == {normalized(SENTENCES[0])}


def test_timestamps_come_where_they_are_asked_for(engine, heard):
    (decoded,) = engine.transcribe([Request(heard(SENTENCES[1]), timestamps=True)])
    begin = engine.tokens.timestamp_begin
    stamps = [(token - begin) * 0.02 for token in decoded.tokens if token >= begin]
    assert len(stamps) >= 2
    assert stamps == sorted(stamps)
    assert 0 <= stamps[0] < 1
    assert stamps[-1] <= 30
    assert "<|" not in decoded.text


def test_text_is_no_longer_than_asked(engine, heard):
    (decoded,) = engine.decode_once([Request(heard(SENTENCES[2]), max_tokens=4)])
    assert len(decoded.tokens) == 4
    assert "cut_off" in decoded.flaws


@pytest.mark.parametrize(
    ("seconds", "silence_s", "frames"),
    [(1, 3.0, 1000), (7.1, 3.0, 1500), (20, 3.0, 2500), (29, 3.0, 3000), (1, None, 3000)],
)
def test_windows_come_in_steps_so_that_requests_share_batches(seconds, silence_s, frames):
    samples = np.zeros(int(seconds * 16_000), np.float32)
    assert Request(samples, silence_s=silence_s).frames == frames


@pytest.mark.parametrize("seconds", [0, 31])
def test_stretches_that_are_none_or_too_long_are_refused(engine, seconds: int):
    with pytest.raises(BadInput, match="30"):
        engine.transcribe([Request(np.zeros(seconds * 16_000, np.float32))])


def test_an_english_model_refuses_other_languages(engine, heard):
    assert engine.tokens.check_language("en-GB") == "en"
    with pytest.raises(BadInput, match="'de'"):
        engine.transcribe([Request(heard(SENTENCES[0]), language="de")])


def test_a_folder_without_a_model_says_what_is_missing(tmp_path):
    with pytest.raises(MissingRequirement, match=r"model\.bin"):
        Whisper(tmp_path)


@pytest.mark.timeout(60)
def test_the_multilingual_model_detects_and_obeys(heard):
    if not is_installed("whisper-base"):
        pytest.skip("the weights aren't installed")
    engine = Whisper(CATALOGUE["whisper-base"].path("whisper-base"))
    assert len(engine.tokens.languages) == 99
    assert engine.tokens.check_language("pt_BR") == "pt"
    with pytest.raises(BadInput, match="language"):
        engine.tokens.check_language("tlh")
    spoken = heard(SENTENCES[1])
    found, german = engine.transcribe([Request(spoken), Request(spoken, language="de", tries=1)])
    assert found.language == "en"
    assert normalized(found.text) == normalized(SENTENCES[1])
    assert german.language == "de"
