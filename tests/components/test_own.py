"""Components of the user's own: what can't be one is refused by name, never with a traceback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from motet.components.base import Component, Context
from motet.components.errors import MissingRequirement
from motet.components.frames import Frame, TextDelta, TextInput
from motet.components.own import lacking, own_class


class Whole(Component):
    """A component as it should be."""

    accepts = (TextInput,)
    emits = (TextDelta,)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        """Say every text again."""
        del context
        async for frame in frames:
            yield frame


class NoPorts(Component):
    """Declares nothing."""

    run = Whole.run


class NoRun(Component):
    """Does nothing."""

    accepts = (TextInput,)
    emits = (TextDelta,)


class Bare(Whole):
    """Has types where tuples of them belong."""

    accepts: ClassVar[Any] = TextInput
    emits: ClassVar[Any] = ("TextDelta",)


class Awaits(Whole):
    """Returns instead of yielding."""

    async def run(self, frames: Any, context: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return."""


class Short(Whole):
    """Takes no context."""

    async def run(self, frames: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Yield."""
        yield frames


class Optioned(Whole):
    """Has options of the wrong kind."""

    options: ClassVar[Any] = {"a": 1}


def test_a_whole_component_lacks_nothing() -> None:
    assert list(lacking(Whole)) == []
    assert own_class(f"{__name__}:Whole") is Whole


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (NoPorts, ["`accepts` must be a tuple", "`emits` must be a tuple"]),
        (NoRun, ["no `run`"]),
        (Bare, ["`accepts` must be", "got ('TextDelta',)"]),
        (Awaits, ["has no `yield`"]),
        (Short, ["(self, frames, context)"]),
        (Optioned, ["base.Options"]),
    ],
)
def test_each_lack_is_told(kind: type[Component], said: list[str]) -> None:
    with pytest.raises(MissingRequirement) as caught:
        own_class(f"{__name__}:{kind.__name__}")
    for one in said:
        assert one in caught.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_such\n", "No module named 'nothing_such'"),
        ("def (\n", "SyntaxError"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("Thing = 1\n", "is no Component"),
    ],
)
def test_a_module_may_fail_in_any_way(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"own_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingRequirement, match=said):
        own_class(f"{name}:Thing")


@pytest.mark.parametrize("use", [":Thing", "module:", ".module:Thing"])
def test_a_name_must_be_whole(use: str) -> None:
    with pytest.raises(MissingRequirement, match=r"package\.module:Class"):
        own_class(use)
