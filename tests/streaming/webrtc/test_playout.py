"""The playout: what is pulled, what is told, and what was heard when it falls silent."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from motet.streaming.webrtc.playout import PIECE, RATE_HZ, Playout


def ramp(size: int, start: int = 1) -> np.ndarray:
    return (np.arange(start, start + size) % 30_000).astype(np.int16)


def told(playout: Playout) -> list[tuple[str, str]]:
    return [(change.kind, change.response_id) for change in playout.changes()]


def test_a_response_starts_when_it_is_heard_and_stops_when_all_of_it_was() -> None:
    playout = Playout()
    assert playout.pull(0.0) is None
    playout.add("r", "i", ramp(PIECE * 2 + 10))
    assert told(playout) == []
    playout.pull(0.02)
    assert told(playout) == [("started", "r")]
    playout.pull(0.04)
    assert playout.pull(0.06) is None, "ten samples wait for more"
    assert told(playout) == []
    playout.finish("r")
    last = playout.pull(0.08)
    assert last is not None
    assert (np.count_nonzero(last[:10]), np.count_nonzero(last[10:])) == (10, 0)
    assert told(playout) == [("stopped", "r")]


def test_a_response_without_audio_is_never_told_of() -> None:
    playout = Playout()
    playout.finish("r")
    assert playout.stop(1.0) == {}
    assert told(playout) == []


def test_falling_silent_tells_how_much_of_what_was_cut_off_was_heard() -> None:
    playout = Playout()
    playout.add("r", "i", ramp(RATE_HZ))
    for count in range(10):
        playout.pull(count * 0.02)
    assert playout.stop(0.2) == {"i": 200.0}
    started, cleared = playout.changes()
    assert (started.kind, cleared.kind, cleared.heard) == ("started", "cleared", {"i": 200.0})
    playout.add("r", "i", ramp(RATE_HZ))
    assert playout.pull(0.22) is None, "what was still to come of it is dropped"
    playout.finish("r")
    playout.add("s", "j", ramp(PIECE))
    assert playout.pull(0.24) is not None


def test_a_reply_that_waits_behind_another_was_not_heard_at_all() -> None:
    playout = Playout()
    for name in ("1", "2"):
        playout.add(f"r{name}", f"i{name}", ramp(PIECE * 4))
        playout.finish(f"r{name}")
    playout.pull(0.0)
    assert playout.stop(0.02) == {"i1": 20.0, "i2": 0.0}
    assert told(playout) == [("started", "r1"), ("cleared", "r1"), ("cleared", "r2")]


def test_its_end_is_now_and_what_waits() -> None:
    playout = Playout()
    playout.pull(5.0)
    playout.add("r", "i", ramp(RATE_HZ))
    assert playout.end_s == 6.0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3), st.integers(0, 1500)),
        st.tuples(st.just("finish"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("pull"), st.just(0), st.just(0)),
        st.tuples(st.just("stop"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS)
def test_no_sample_is_lost_or_heard_twice_and_each_start_has_one_end(
    steps: list[tuple[str, int, int]],
) -> None:
    playout = Playout()
    added: list[int] = []
    pulled: list[int] = []
    events: list[tuple[str, str]] = []
    closed: set[int] = set()
    for number, (what, which, size) in enumerate(steps):
        if what == "add" and which not in closed:
            before = playout.queued_s
            playout.add(f"r{which}", f"i{which}", ramp(size, len(added) + 1))
            if playout.queued_s > before:
                added += ramp(size, len(added) + 1).tolist()
        elif what == "finish":
            closed.add(which)
            playout.finish(f"r{which}")
        elif what == "pull":
            piece = playout.pull(number * 0.02)
            pulled += [] if piece is None else piece[piece != 0].tolist()
        elif what == "stop":
            playout.stop(number * 0.02)
            del added[len(pulled) :]
        events += told(playout)
        assert pulled == added[: len(pulled)]
        assert round(playout.queued_s * RATE_HZ) == len(added) - len(pulled)
    for response_id in {name for _, name in events}:
        kinds = [kind for kind, name in events if name == response_id]
        assert kinds.count("started") <= 1
        ends = [kind for kind in kinds if kind != "started"]
        assert len(ends) <= 1
        assert not ends or kinds[-1] == ends[0]
