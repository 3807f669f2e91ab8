"""Where utterances begin, pause and end, on audio made of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.components.frames import (
    Audio,
    Clear,
    Commit,
    Frame,
    SpeechPaused,
    SpeechStarted,
    SpeechStopped,
    TurnSettings,
)
from motet.components.turn.endpoint import Endpoint
from motet.components.turn.rules import EndpointRules

WINDOW = 512
MS = 32


class Rig:
    """An endpoint fed with windows; samples count up, so that every one can be found again."""

    def __init__(self, rules: EndpointRules | None = None, **settings) -> None:
        self.endpoint = Endpoint(rules, TurnSettings(**settings))
        self.fed = 0
        self.now_s = 100.0
        self.out: list[Frame] = []

    def feed(self, speech: float, windows: int = 1) -> list[Frame]:
        new: list[Frame] = []
        for _ in range(windows):
            pcm = (np.arange(self.fed, self.fed + WINDOW) % 32768).astype(np.int16)
            new += self.endpoint.audio(Audio(pcm, 16_000, self.fed / 16, speech), self.now_s)
            self.fed += WINDOW
            self.now_s += 0.032
        self.out += new
        return new

    def do(self, frames: list[Frame]) -> list[Frame]:
        self.out += frames
        return frames

    def events(self) -> list[Frame]:
        return [frame for frame in self.out if not isinstance(frame, Audio)]

    def audio_of(self, number: int) -> np.ndarray:
        parts, current = [], 0
        for frame in self.out:
            if isinstance(frame, SpeechStarted):
                current = frame.utterance
            elif isinstance(frame, Audio) and current == number:
                parts.append(frame.pcm)
        return np.concatenate(parts)


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


def test_manual_mode_holds_everything_since_the_last_commit():
    rig = Rig(mode="manual")
    rig.feed(0.0, 50)
    assert rig.events() == [SpeechStarted(1, 0.0, detected=False)]
    assert rig.endpoint.deadline_s() is None
    rig.do(rig.endpoint.control(Commit()))
    rig.feed(0.9, 10)
    rig.do(rig.endpoint.control(Commit()))
    assert rig.events()[1:] == [
        SpeechStopped(1, 50 * MS, detected=False),
        SpeechStarted(2, 50 * MS, detected=False),
        SpeechStopped(2, 60 * MS, detected=False),
    ]
    assert len(rig.audio_of(1)) + len(rig.audio_of(2)) == rig.fed


def test_clear_drops_what_is_open_and_forgets_the_pre_roll():
    rig = Rig()
    rig.feed(0.9, 10)
    assert rig.endpoint.control(Clear()) == [SpeechStopped(1, 320, dropped=True)]
    rig.feed(0.0, 5)
    assert rig.endpoint.control(Clear()) == []
    rig.feed(0.9, 2)
    assert rig.events()[-1] == SpeechStarted(2, 15 * MS)


def test_a_commit_while_nobody_speaks_takes_what_is_there():
    rig = Rig()
    assert rig.endpoint.control(Commit()) == []
    rig.feed(0.0, 3)
    events = [frame for frame in rig.endpoint.control(Commit()) if not isinstance(frame, Audio)]
    assert events == [SpeechStarted(1, 0, detected=False), SpeechStopped(1, 96, detected=False)]
    assert rig.endpoint.control(Commit()) == []


def test_a_commit_in_mid_speech_ends_it_there():
    rig = Rig()
    rig.feed(0.9, 10)
    assert rig.endpoint.control(Commit()) == [SpeechStopped(1, 320)]


def test_a_detector_that_takes_over_drops_the_uncommitted():
    rig = Rig(mode="manual")
    rig.feed(0.0, 5)
    stopped = rig.endpoint.control(TurnSettings())
    assert stopped == [SpeechStopped(1, 160, detected=False, dropped=True)]


def test_endless_speech_is_cut_without_losing_a_sample():
    rig = Rig(EndpointRules(max_utterance_ms=1600))
    rig.feed(0.9, 120)
    kinds = [type(frame) for frame in rig.events()]
    assert kinds == [SpeechStarted, SpeechStopped, SpeechStarted, SpeechStopped, SpeechStarted]
    whole = np.concatenate([rig.audio_of(n) for n in (1, 2, 3)])
    assert np.array_equal(whole, (np.arange(120 * WINDOW) % 32768).astype(np.int16))


@pytest.mark.parametrize(("eagerness", "ms"), [("low", 1600), ("auto", 800), ("high", 500)])
def test_without_a_judge_eagerness_is_patience(eagerness: str, ms: float):
    rig = Rig(mode="semantic", eagerness=eagerness)
    rig.feed(0.9, 10)
    rig.feed(0.0, 100)
    assert rig.events()[-1].end_ms - 320 == -(-ms // MS) * MS


@pytest.mark.parametrize(("eagerness", "ms"), [("low", 8000), ("medium", 4000), ("high", 2000)])
def test_a_judge_ends_what_is_finished_and_eagerness_what_is_not(eagerness: str, ms: float):
    rig = Rig(EndpointRules(judged=True), mode="semantic", eagerness=eagerness)
    rig.feed(0.9, 10)
    rig.feed(0.0, 8)
    assert rig.endpoint.verdict(1, finished=False) == []
    rig.feed(0.9, 5)
    assert rig.endpoint.verdict(1, finished=True) == []
    rig.feed(0.0, 6)
    assert rig.endpoint.verdict(1, finished=True, decision_ms=70) == []
    rig.feed(0.0)
    assert rig.events()[-1] == SpeechStopped(1, 30 * MS, decision_ms=70)
    rig.feed(0.9, 10)
    rig.feed(0.0, 300)
    assert rig.events()[-1].end_ms - 40 * MS == -(-ms // MS) * MS


def test_the_end_of_the_stream_ends_the_utterance():
    spoken, silent = Rig(), Rig(mode="manual")
    spoken.feed(0.9, 10)
    silent.feed(0.9, 10)
    assert spoken.endpoint.end() == [SpeechStopped(1, 320)]
    assert silent.endpoint.end() == [SpeechStopped(1, 320, detected=False, dropped=True)]


STEPS = st.one_of(
    st.tuples(st.just("feed"), st.sampled_from([0.0, 0.4, 0.9]), st.integers(1, 25)),
    st.tuples(st.just("wait"), st.floats(0.1, 3.0), st.just(0)),
    st.tuples(
        st.sampled_from(["commit", "clear", "manual", "server", "semantic"]), st.just(0), st.just(0)
    ),
)


@given(st.lists(STEPS, max_size=25))
@settings(max_examples=200, deadline=None)
def test_whatever_happens_utterances_are_whole_ordered_and_disjoint(steps):
    rig = Rig(EndpointRules(max_utterance_ms=3000))
    for what, value, count in steps:
        if what == "feed":
            rig.feed(value, count)
        elif what == "wait":
            rig.now_s += value
            rig.do(rig.endpoint.tick(rig.now_s))
        elif what == "commit":
            rig.do(rig.endpoint.control(Commit()))
        elif what == "clear":
            rig.do(rig.endpoint.control(Clear()))
        else:
            rig.do(rig.endpoint.control(TurnSettings(mode=what)))
    rig.do(rig.endpoint.end())
    open_number, last, place = None, 0, 0.0
    for frame in rig.out:
        if isinstance(frame, SpeechStarted):
            assert open_number is None
            assert frame.utterance == last + 1
            assert frame.start_ms >= place
            open_number, last, place = frame.utterance, frame.utterance, frame.start_ms
        elif isinstance(frame, SpeechStopped):
            assert frame.utterance == open_number
            open_number = None
        elif isinstance(frame, SpeechPaused):
            assert frame.utterance == open_number
        else:
            assert open_number is not None
            assert frame.start_ms == pytest.approx(place)
            place = frame.end_ms
    assert open_number is None
