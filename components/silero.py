"""The Silero v6 network: many streams in one step, or one long signal in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from .audio import Floats, to_float
from .errors import MotetError
from .frames import Samples
from .onnx import OnnxModel

RATE_HZ = 16_000
WINDOW = 512
CONTEXT = 64
_HIDDEN = 128
_SCAN_WINDOWS = 1024
_SCALE = np.float32(1 / 32768)

# The published graph runs its LSTM along time, for one signal. Handing its encoder's output over
# as (1, windows, 128) instead of (windows, 1, 128) makes the windows a batch of streams. Both
# pieces are serialized protobuf: the axes of that Transpose, and the 1 in the middle of the
# state's shape (1, 1, 128), which becomes a dimension without a value.
_ALONG_TIME = bytes.fromhex("0a047065726d 4000 4002 4001")
_ACROSS_STREAMS = bytes.fromhex("0a047065726d 4002 4000 4001")
_STATE_OF_ONE = bytes.fromhex("0a110801120d 0a020801 0a020801 0a03088001")
_STATE_OF_MANY = bytes.fromhex("0a110801120d 0a020801 0a021a00 0a03088001")


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What the network remembers of one stream: LSTM state of shape (128,) and 64 samples."""

    hidden: Floats
    cell: Floats
    context: Floats

    @classmethod
    def fresh(cls) -> State:
        """The state before the first sample."""
        zeros = np.zeros(_HIDDEN, np.float32)
        return cls(zeros, zeros, np.zeros(CONTEXT, np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """The next audio of one stream: int16 at 16 kHz; silence is added up to whole windows."""

    samples: Samples
    state: State

    @property
    def windows(self) -> int:
        """Windows that it has, the last of them perhaps not whole."""
        return -(-len(self.samples) // WINDOW)

    def window(self, number: int) -> Samples:
        """One window, or what there is of it."""
        return self.samples[number * WINDOW : (number + 1) * WINDOW]


Answer = tuple[Floats, State]


def as_floats(samples: Samples | Floats) -> Floats:
    """int16 or float32 samples as float32 in -1..1."""
    if samples.dtype == np.int16:
        return to_float(cast(Samples, samples))
    return cast(Floats, samples)


def _across_streams(graph: bytes, path: Path) -> bytes:
    if graph.count(_ALONG_TIME) != 1 or graph.count(_STATE_OF_ONE) != 4:
        raise MotetError(f"{path} isn't the Silero v6 graph that this engine knows", where="vad")
    return graph.replace(_ALONG_TIME, _ACROSS_STREAMS).replace(_STATE_OF_ONE, _STATE_OF_MANY)


class SileroModel:
    """One set of weights for every stream. Methods block; `step` and `scan` may run in threads."""

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        graph = path.read_bytes()
        self._streams = OnnxModel(_across_streams(graph, path), threads=threads)
        self._signal = OnnxModel(graph, threads=threads)

    def step(self, pieces: list[Piece]) -> list[Answer]:
        """Advance many streams, each by its own number of windows (one at least)."""
        if len(pieces) == 1 and pieces[0].windows > 1:
            return [self.scan(pieces[0].samples, pieces[0].state)]
        if all(len(one.samples) == WINDOW for one in pieces):
            return self._step_live(pieces)
        order = sorted(range(len(pieces)), key=lambda n: -pieces[n].windows)
        streams = [pieces[n] for n in order]
        hidden = np.stack([one.state.hidden for one in streams])[None]
        cell = np.stack([one.state.cell for one in streams])[None]
        inputs = np.empty((len(streams), CONTEXT + WINDOW), np.float32)
        inputs[:, -CONTEXT:] = np.stack([one.state.context for one in streams])
        speech = np.empty((streams[0].windows, len(streams)), np.float32)
        for window in range(len(speech)):
            active = sum(one.windows > window for one in streams)
            _advance(inputs[:active], [one.window(window) for one in streams[:active]])
            speech[window, :active], hidden[:, :active], cell[:, :active] = self._streams.run(
                {"input": inputs[:active], "h": hidden[:, :active], "c": cell[:, :active]}
            )
        answers: dict[int, Answer] = {}
        for place, n in enumerate(order):
            state = State(hidden[0, place], cell[0, place], inputs[place, -CONTEXT:])
            answers[n] = (speech[: pieces[n].windows, place], state)
        return [answers[n] for n in range(len(pieces))]

    def _step_live(self, pieces: list[Piece]) -> list[Answer]:
        """One whole window of each stream, as live audio comes: no sorting, no padding."""
        count = len(pieces)
        inputs = np.empty((count, CONTEXT + WINDOW), np.float32)
        hidden = np.empty((1, count, _HIDDEN), np.float32)
        cell = np.empty((1, count, _HIDDEN), np.float32)
        for row, one in enumerate(pieces):
            inputs[row, :CONTEXT] = one.state.context
            np.multiply(one.samples, _SCALE, out=inputs[row, CONTEXT:])
            hidden[0, row] = one.state.hidden
            cell[0, row] = one.state.cell
        speech, hidden, cell = self._streams.run({"input": inputs, "h": hidden, "c": cell})
        return [
            (speech[row : row + 1], State(hidden[0, row], cell[0, row], inputs[row, -CONTEXT:]))
            for row in range(count)
        ]

    def scan(self, samples: Samples | Floats, state: State | None = None) -> Answer:
        """Speech probability of each window of a signal at 16 kHz, and the state after it.

        `samples` of shape (samples,): int16, or float32 in -1..1. The last window is padded with
        silence, so carry `state` on only where the length is a multiple of 512.
        """
        state = state or State.fresh()
        found: list[Floats] = []
        for start in range(0, len(samples), WINDOW * _SCAN_WINDOWS):
            block = as_floats(samples[start : start + WINDOW * _SCAN_WINDOWS])
            block = np.pad(block, (0, -len(block) % WINDOW)).reshape(-1, WINDOW)
            inputs = np.empty((len(block), CONTEXT + WINDOW), np.float32)
            inputs[:, CONTEXT:] = block
            inputs[0, :CONTEXT] = state.context
            inputs[1:, :CONTEXT] = block[:-1, -CONTEXT:]
            speech, hidden, cell = self._signal.run(
                {"input": inputs, "h": state.hidden[None, None], "c": state.cell[None, None]}
            )
            state = State(hidden[0, 0], cell[0, 0], inputs[-1, -CONTEXT:])
            found.append(speech)
        return (np.concatenate(found) if found else np.empty(0, np.float32)), state


def _advance(inputs: Floats, windows: Sequence[Samples]) -> None:
    """Move each row, context and window, on by one window."""
    block = np.zeros((len(windows), WINDOW), np.int16)
    for row, window in zip(block, windows, strict=True):
        row[: len(window)] = window
    inputs[:, :CONTEXT] = inputs[:, -CONTEXT:]
    np.multiply(block, _SCALE, out=inputs[:, CONTEXT:])
