"""What clients and judges tell an endpoint, and that utterances stay whole whatever happens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turnrig import MS, Rig

from motet.components.frames import (
    Audio,
    Clear,
    Commit,
    SpeechPaused,
    SpeechStarted,
    SpeechStopped,
    TurnSettings,
)
from motet.components.turn.rules import EndpointRules


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
