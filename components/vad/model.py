"""The Silero v6 network: many streams in one step, or one long signal in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from ..audio import Floats, to_float
from ..errors import MotetError
from ..frames import Samples
from ..onnx import OnnxModel

RATE_HZ = 16_000
WINDOW = 512
CONTEXT = 64
WINDOW_MS = WINDOW * 1000 / RATE_HZ
_HIDDEN = 128
_SCAN_WINDOWS = 1024

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
    """The next windows of one stream: `inputs` of shape (windows, 64 + 512), context included."""

    inputs: Floats
    state: State


Answer = tuple[Floats, State]


def as_floats(samples: Samples | Floats) -> Floats:
    """int16 or float32 samples as float32 in -1..1."""
    if samples.dtype == np.int16:
        return to_float(cast(Samples, samples))
    return cast(Floats, samples)


def piece(samples: Samples | Floats, state: State) -> Piece:
    """Cut a whole number of windows into the network's input."""
    windows = as_floats(samples).reshape(-1, WINDOW)
    inputs = np.empty((len(windows), CONTEXT + WINDOW), np.float32)
    inputs[:, CONTEXT:] = windows
    inputs[0, :CONTEXT] = state.context
    inputs[1:, :CONTEXT] = windows[:-1, -CONTEXT:]
    return Piece(inputs, state)


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
        """Advance many streams, each by its own number of windows."""
        if len(pieces) == 1 and len(pieces[0].inputs) > 1:
            return [self._along(pieces[0])]
        order = sorted(range(len(pieces)), key=lambda n: -len(pieces[n].inputs))
        hidden = np.stack([pieces[n].state.hidden for n in order])[None]
        cell = np.stack([pieces[n].state.cell for n in order])[None]
        probabilities = [np.empty(len(pieces[n].inputs), np.float32) for n in order]
        active = len(order)
        for window in range(len(pieces[order[0]].inputs)):
            while len(probabilities[active - 1]) <= window:
                active -= 1
            inputs = np.stack([pieces[n].inputs[window] for n in order[:active]])
            speech, hidden[:, :active], cell[:, :active] = self._run(
                self._streams, inputs, hidden[:, :active], cell[:, :active]
            )
            for place in range(active):
                probabilities[place][window] = speech[place]
        answers: dict[int, Answer] = {}
        for place, n in enumerate(order):
            context = pieces[n].inputs[-1, -CONTEXT:]
            state = State(hidden[0, place], cell[0, place], context)
            answers[n] = (probabilities[place], state)
        return [answers[n] for n in range(len(pieces))]

    def _along(self, one: Piece) -> Answer:
        speech, hidden, cell = self._run(
            self._signal, one.inputs, one.state.hidden[None, None], one.state.cell[None, None]
        )
        return speech, State(hidden[0, 0], cell[0, 0], one.inputs[-1, -CONTEXT:])

    def _run(
        self, model: OnnxModel, inputs: Floats, hidden: Floats, cell: Floats
    ) -> Sequence[Floats]:
        return model.run({"input": inputs, "h": hidden, "c": cell})

    def scan(self, samples: Samples | Floats, state: State | None = None) -> Answer:
        """Speech probability of each window of a signal at 16 kHz, and the state after it.

        `samples` of shape (samples,): int16, or float32 in -1..1. The last window is padded with
        silence, so carry `state` on only where the length is a multiple of 512.
        """
        state = state or State.fresh()
        found: list[Floats] = []
        for start in range(0, len(samples), WINDOW * _SCAN_WINDOWS):
            block = as_floats(samples[start : start + WINDOW * _SCAN_WINDOWS])
            block = np.pad(block, (0, -len(block) % WINDOW))
            speech, state = self._along(piece(block, state))
            found.append(speech)
        return (np.concatenate(found) if found else np.empty(0, np.float32)), state
