"""Places for sessions: counted over all keys and for each."""

from __future__ import annotations

from motet.streaming.access.admission import Admission


def test_admission_counts_all_and_each_key() -> None:
    admission = Admission(3, 2)
    first = admission.try_enter("a")
    assert first is not None
    assert admission.try_enter("a")
    assert admission.try_enter("a") is None, "the key has its share"
    assert admission.try_enter("a", max_sessions=3)
    assert admission.try_enter("b") is None, "all places are taken"
    first.leave()
    first.leave()
    assert admission.open == 2
    with admission.try_enter("b"):  # pyright: ignore[reportOptionalContextManager]
        assert admission.try_enter("c") is None
    assert admission.open == 2
