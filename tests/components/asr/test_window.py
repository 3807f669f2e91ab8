"""Audio of an utterance: trimmed to its voice, cut at its pauses, whole."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from motet.components.asr.window import Window
from motet.components.audio import to_int16
from motet.components.frames import Audio


def pieces(*runs: tuple[float | None, int], size: int = 512) -> list[Audio]:
    speech = [p for p, count in runs for _ in range(count)]
    return [
        Audio(np.full(size, n % 30_000, np.int16), 16_000, n * size / 16, p)
        for n, p in enumerate(speech)
    ]


def numbers(samples: np.ndarray) -> list[int]:
    return sorted(set(np.rint(samples * 32768).astype(int).tolist()))


def test_a_stretch_is_the_voice_and_a_little_around():
    stretch = Window(pieces((0.0, 50), (0.9, 20), (0.1, 60))).stretch()
    kept = numbers(stretch.samples)
    assert kept == list(range(40, 77))
    assert stretch.voiced_s == 20 * 0.032


def test_no_voice_is_nothing_to_decode():
    assert Window(pieces((0.1, 50))).stretch() is None
    assert Window().stretch() is None


def test_without_a_vad_loudness_decides():
    quiet = [Audio(np.full(512, 3, np.int16), 16_000, n * 32.0) for n in range(9)]
    loud = np.sin(np.arange(512) / 5) * 0.2
    assert Window(quiet).stretch() is None
    spoken = Window([*quiet, Audio(to_int16(loud), 16_000, 288.0)]).stretch()
    assert spoken.voiced_s == 0.032


def test_it_is_cut_in_the_longest_pause_of_its_second_half():
    window = Window(pieces((0.0, 30), (0.9, 30), (0.1, 4), (0.9, 10), (0.1, 10), (0.9, 16)))
    first = window.cut()
    assert round(first.duration_ms / 32) == 30 + 30 + 4 + 10 + 5
    assert round(window.duration_ms / 32) == 21
    assert first.voiced_ms + window.voiced_ms == (30 + 10 + 16) * 32


def test_speech_without_a_pause_is_cut_where_it_is_faintest():
    audio = pieces((0.9, 100))
    window = Window()
    for n, piece in enumerate(audio):
        window.add(Audio(piece.pcm, 16_000, piece.start_ms, 0.5 if n == 70 else 0.9))
    assert round(window.cut().duration_ms / 32) == 70


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_a_cut_loses_nothing_and_always_cuts(speech: list[float]):
    window = Window(pieces(*((p, 1) for p in speech)))
    first = window.cut()
    assert first.duration_ms > 0
    assert round((first.duration_ms + window.duration_ms) / 32) == len(speech)


def test_any_rate_becomes_sixteen_kilohertz():
    audio = [Audio(np.full(480, 9000, np.int16), 24_000, n * 20.0, 0.9) for n in range(50)]
    stretch = Window(audio).stretch()
    assert abs(len(stretch.samples) - 16_000) <= 1
