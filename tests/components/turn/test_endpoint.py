"""Where utterances begin, pause and end, on audio made of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from turnrig import MS, WINDOW, Rig

from motet.components.frames import (
    SpeechPaused,
    SpeechStarted,
    SpeechStopped,
)
from motet.components.turn.rules import EndpointRules


def test_an_utterance_starts_pauses_and_stops():
    rig = Rig()
    rig.feed(0.1, 20)
    rig.feed(0.9, 30)
    rig.feed(0.1, 30)
    assert rig.events() == [
        SpeechStarted(1, 20 * MS - 300),
        SpeechPaused(1, 50 * MS),
        SpeechStopped(1, 66 * MS),
    ]


def test_the_first_word_at_time_zero_is_whole():
    rig = Rig()
    rig.feed(0.9, 10)
    assert rig.events() == [SpeechStarted(1, 0.0)]
    assert rig.audio_of(1).tolist() == list(range(10 * WINDOW))


def test_pre_roll_is_cut_to_the_sample():
    rig = Rig(prefix_padding_ms=100)
    rig.feed(0.0, 40)
    rig.feed(0.9, 3)
    first = int((40 * MS - 100) * 16)
    assert rig.audio_of(1).tolist() == list(range(first, 43 * WINDOW))


@pytest.mark.parametrize("windows", [2, 4, 8])
def test_short_words_count(windows: int):
    rig = Rig()
    rig.feed(0.1, 20)
    rig.feed(0.9, windows)
    rig.feed(0.0, 20)
    assert [type(frame) for frame in rig.events()] == [SpeechStarted, SpeechPaused, SpeechStopped]


def test_a_click_does_not():
    rig = Rig()
    for _ in range(10):
        rig.feed(0.95)
        rig.feed(0.05, 5)
    assert rig.events() == []


def test_hesitant_windows_hold_speech_but_do_not_resume_it():
    rig = Rig()
    rig.feed(0.9, 10)
    rig.feed(0.4, 40)
    assert [type(frame) for frame in rig.events()] == [SpeechStarted]
    rig.feed(0.1)
    rig.feed(0.4, 20)
    assert rig.events()[1:] == [SpeechPaused(1, 50 * MS), SpeechStopped(1, 66 * MS)]


def test_a_pause_shorter_than_the_limit_is_reported_again_after_more_speech():
    rig = Rig(silence_duration_ms=900)
    rig.feed(0.9, 10)
    for _ in range(3):
        rig.feed(0.0, 25)
        rig.feed(0.9, 5)
    rig.feed(0.0, 40)
    kinds = [type(frame) for frame in rig.events()]
    assert kinds == [SpeechStarted, *[SpeechPaused] * 4, SpeechStopped]


def test_a_resumed_stream_still_has_the_pre_roll_of_the_next_word():
    rig = Rig()
    rig.feed(0.9, 10)
    rig.feed(0.0, 30)
    rig.feed(0.9, 10)
    starts = [frame.start_ms for frame in rig.events() if isinstance(frame, SpeechStarted)]
    stops = [frame.end_ms for frame in rig.events() if isinstance(frame, SpeechStopped)]
    assert starts[1] >= stops[0]
    assert starts[1] == 40 * MS - 300 or starts[1] == stops[0]


def test_audio_that_ceases_ends_the_turn_after_the_silence_and_a_grace():
    rig = Rig(EndpointRules(grace_ms=500), silence_duration_ms=500)
    rig.feed(0.9, 20)
    last_s = rig.now_s - 0.032
    assert rig.endpoint.tick(last_s + 0.6) == []
    first = rig.endpoint.deadline_s()
    assert first == pytest.approx(last_s + 0.16 + 0.5)
    assert rig.endpoint.tick(first) == [SpeechPaused(1, 20 * MS)]
    second = rig.endpoint.deadline_s()
    assert second == pytest.approx(last_s + 1.0)
    assert rig.endpoint.tick(second + 1e-6) == [SpeechStopped(1, 20 * MS)]
    assert rig.endpoint.deadline_s() is None


def test_late_audio_is_no_silence():
    rig = Rig()
    rig.feed(0.9, 20)
    for _ in range(20):
        rig.now_s += 0.4
        assert rig.endpoint.tick(rig.now_s) == []
        rig.feed(0.9, 12)
    assert [type(frame) for frame in rig.events()] == [SpeechStarted]


@pytest.mark.parametrize("burst_ms", [200, 500, 1000, 2000])
def test_a_client_that_sends_in_bursts_is_not_cut_off(burst_ms: int):
    rig = Rig(silence_duration_ms=200)
    windows = burst_ms // MS
    for _ in range(6):
        for _ in range(windows):
            rig.feed(0.9)
            rig.now_s -= 0.031
        rig.now_s += windows * 0.031
        rig.do(rig.endpoint.tick(rig.now_s))
    assert [type(frame) for frame in rig.events()] == [SpeechStarted]
    rig.now_s += 4
    rig.do(rig.endpoint.tick(rig.now_s))
    assert isinstance(rig.events()[-1], SpeechStopped)


def test_after_a_burst_the_grace_becomes_short_again():
    rig = Rig(EndpointRules(grace_ms=300))
    for _ in range(60):
        rig.feed(0.9)
        rig.now_s -= 0.031
    late = rig.endpoint.deadline_s() - rig.now_s
    rig.now_s += 2
    rig.feed(0.9, 500)
    assert rig.endpoint.deadline_s() - rig.now_s < late / 3


def test_endless_speech_is_cut_without_losing_a_sample():
    rig = Rig(EndpointRules(max_utterance_ms=1600))
    rig.feed(0.9, 120)
    kinds = [type(frame) for frame in rig.events()]
    assert kinds == [SpeechStarted, SpeechStopped, SpeechStarted, SpeechStopped, SpeechStarted]
    whole = np.concatenate([rig.audio_of(n) for n in (1, 2, 3)])
    assert np.array_equal(whole, (np.arange(120 * WINDOW) % 32768).astype(np.int16))
