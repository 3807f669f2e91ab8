"""What an error becomes in another process doesn't depend on what else is imported there."""

from __future__ import annotations

import pytest

from motet.components.errors import BadInput, ComponentFailed, MotetError, Overloaded
from motet.components.wire.faults import from_abort, to_abort


class Picky(BadInput):
    """A subclass of some door, without a code of its own and made in another way."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")


@pytest.mark.parametrize("kind", [BadInput, ComponentFailed, Overloaded])
def test_subclasses_elsewhere_change_nothing(kind: type[MotetError]) -> None:
    assert Picky(3).code == BadInput.code
    error = from_abort(to_abort(kind("wrong", where="here")))
    assert type(error) is kind
    assert str(error) == "here: wrong"


def test_a_code_of_a_door_keeps_itself() -> None:
    error = MotetError("too much", where="door")
    error.code = "rate_limited"
    assert from_abort(to_abort(error)).code == "rate_limited"
