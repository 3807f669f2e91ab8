"""What transcription remembers between utterances."""

from __future__ import annotations

import numpy as np
import pytest

from motet.components.asr.memory import Memory
from motet.components.asr.requests import Decoded
from motet.components.asr.tokens import Tokens
from motet.components.asr.window import Stretch
from motet.components.errors import BadInput
from motet.components.frames import TranscriptionSettings
from motet.components.models import is_installed, locate

SHORT = Stretch(np.zeros(16_000, np.float32), 0.5)
LONG = Stretch(np.zeros(160_000, np.float32), 8.0)


@pytest.fixture(scope="module")
def tokens() -> Tokens:
    if not is_installed("whisper-tiny-en"):
        pytest.skip("the weights aren't installed")
    return Tokens(locate("whisper-tiny-en") / "tokenizer.json", multilingual=False)


def decoded(text: str, *flaws: str, language: str = "en") -> Decoded:
    return Decoded(text, (1,), language, -0.1, 0.0, 0.0, 1.0, flaws=flaws)


def context(memory: Memory, tokens: Tokens, **options) -> str:
    return tokens.decode(memory.request(LONG, **options).context)


def test_what_was_said_is_the_context_of_the_next(tokens):
    memory = Memory(tokens, context_tokens=8, beam_size=1)
    for text in ("My name is Helen.", "I live in Oslo.", "It snows."):
        memory.remember(decoded(text), text)
        assert context(memory, tokens).endswith(" " + text)
    assert len(memory.request(LONG).context) == 8


def test_nothing_is_kept_where_nothing_is_asked(tokens):
    memory = Memory(tokens, context_tokens=0, beam_size=1)
    memory.remember(decoded("My name is Helen."), "My name is Helen.")
    assert context(memory, tokens) == ""
    assert context(memory, tokens, before="I live in") == " I live in"


def test_a_repetition_is_forgotten_and_refused_text_is_not_kept(tokens):
    memory = Memory(tokens, context_tokens=32, beam_size=1)
    memory.remember(decoded("My name is Helen."), "My name is Helen.")
    memory.remember(decoded("you"), "")
    assert context(memory, tokens) == " My name is Helen."
    memory.remember(decoded("No no no no", "repetition"), "No no no no")
    assert context(memory, tokens) == ""


def test_a_prompt_stands_in_front_and_is_bounded(tokens):
    memory = Memory(tokens, context_tokens=32, beam_size=1)
    memory.remember(decoded("It snows."), "It snows.")
    memory.set(TranscriptionSettings(prompt="Motet, Hibari."))
    assert context(memory, tokens) == " Motet, Hibari. It snows."
    memory.set(TranscriptionSettings(prompt="word " * 5000))
    assert len(memory.request(LONG).context) < 200
    memory.set(TranscriptionSettings())
    assert context(memory, tokens) == " It snows."


def test_short_speech_is_taken_for_the_language_of_what_was_said_before(tokens, monkeypatch):
    monkeypatch.setattr(tokens, "check_language", lambda language: language)
    memory = Memory(tokens, context_tokens=0, beam_size=1)
    assert memory.request(SHORT).language is None
    memory.remember(decoded("Guten Tag.", language="de"), "Guten Tag.")
    assert memory.request(SHORT).language == "de"
    assert memory.request(LONG).language is None
    memory.set(TranscriptionSettings(language="fr"))
    assert memory.request(SHORT).language == "fr"


def test_an_unknown_language_is_named_and_the_prompt_still_holds(tokens):
    memory = Memory(tokens, context_tokens=0, beam_size=1)
    with pytest.raises(BadInput, match="'xx'"):
        memory.set(TranscriptionSettings(language="xx", prompt="Motet"))
    assert context(memory, tokens) == " Motet"
