"""The edge protocol: credit is never exceeded, nothing is lost unnoticed, silence is noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.components.errors import ComponentFailed
from motet.pipelines.runtimes.edge import Incoming, Liveness, Outgoing, ProtocolFault


@given(window=st.integers(1, 40), steps=st.lists(st.sampled_from("stg"), max_size=300))
def test_never_more_than_a_window_under_way_and_never_stuck(window: int, steps: list[str]) -> None:
    outgoing, incoming = Outgoing(window), Incoming(window)
    held, grants = 0, []
    for step in steps:
        if step == "s" and outgoing.may_send:
            incoming.accept(outgoing.next())
            held += 1
        elif step == "t" and held:
            held -= 1
            grants.append(incoming.taken())
        elif step == "g" and grants:
            outgoing.grant(grants.pop(0))
        assert held + outgoing.credit <= window
    while held:
        held -= 1
        grants.append(incoming.taken())
    outgoing.grant(sum(grants))
    assert outgoing.may_send, "everything was taken, so there must be credit again"
    incoming.finish(outgoing.finish())


def test_a_sender_without_credit_must_not_send() -> None:
    outgoing = Outgoing(2)
    assert [outgoing.next(), outgoing.next()] == [1, 2]
    assert not outgoing.may_send
    with pytest.raises(ProtocolFault, match="no credit"):
        outgoing.next()


@pytest.mark.parametrize(
    ("sequences", "words"),
    [
        ([1, 3], "frame 3 came after frame 1"),
        ([1, 1], "frame 1 came after frame 1"),
        ([2], "frame 2 came after frame 0"),
        ([1, 2, 3], "frame 3 came without credit"),
    ],
)
def test_lost_doubled_and_uncalled_frames_are_noticed(sequences: list[int], words: str) -> None:
    incoming = Incoming(2)
    with pytest.raises(ProtocolFault, match=words):
        for sequence in sequences:
            incoming.accept(sequence)


def test_an_end_that_counts_other_frames_is_no_end() -> None:
    incoming = Incoming(4)
    incoming.accept(1)
    with pytest.raises(ProtocolFault, match="the end counts 2 frames, 1 came"):
        incoming.finish(2)
    incoming.finish(1)
    with pytest.raises(ProtocolFault, match="after the end"):
        incoming.accept(2)


def test_a_silent_peer_is_given_up_and_a_talking_one_is_not() -> None:
    liveness = Liveness(interval_s=1.0, patience_s=5.0)
    liveness.start(100.0)
    for second in range(1, 20):
        liveness.heard(100.0 + second - 0.5)
        liveness.tick(100.0 + second)
    now = 119.0
    assert [liveness.silent(118.5 + late_s) for late_s in (1.0, 3.0, 3.1)] == [False, False, True]
    with pytest.raises(ComponentFailed, match=r"said nothing for 5\.5 s"):
        while True:
            now += 1.0
            liveness.tick(now)
    assert now == 124.0


def test_heartbeats_only_when_nothing_else_was_said() -> None:
    liveness = Liveness(interval_s=1.0)
    liveness.start(0.0)
    liveness.said(0.5)
    assert not liveness.tick(1.0)
    assert liveness.tick(2.0)


def test_a_process_that_stood_still_does_not_blame_its_peer() -> None:
    liveness = Liveness(interval_s=1.0, patience_s=5.0)
    liveness.start(0.0)
    liveness.heard(0.9)
    liveness.tick(1.0)
    liveness.tick(600.0)
    liveness.tick(601.0)
    with pytest.raises(ComponentFailed):
        for second in range(602, 610):
            liveness.tick(float(second))
