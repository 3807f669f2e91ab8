"""What all frames share, and those of every kind of work: progress, faults, the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.int16]
"""Mono PCM, shape (samples,)."""
Tensor = NDArray[Any]
"""An array of any type and shape."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Base of everything that travels along an edge."""


@dataclass(frozen=True, slots=True)
class Control(Frame):
    """A frame that every component passes on in its place in the stream unless it is meant for it.

    So a `Commit` sent behind audio reaches the turn detector behind that audio.
    """


@dataclass(frozen=True, slots=True)
class Data(Frame):
    """A JSON-like value, for what has no frame of its own."""

    value: Any


@dataclass(frozen=True, slots=True)
class Progress(Frame):
    """How far a request is: `done` of `total` units, with `note` for people."""

    done: float
    total: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Fault(Frame):
    """A component failed and its turn or request ends here; the session goes on.

    `code` is the error's stable code (`components.errors`), `node` where it happened.
    """

    node: str
    code: str
    message: str
    utterance: int = 0


@dataclass(frozen=True, slots=True)
class End(Frame):
    """The turn is over: nothing more follows in it. `interrupted` when it was cut off."""

    interrupted: bool = False
