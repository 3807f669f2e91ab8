"""From what a file's channels carry to mono speech: mixing that loses nobody, and resampling."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import soxr
from av import AudioFrame
from numpy.typing import NDArray

from .audio import to_int16

Planar = NDArray[np.float32]

_ACTIVE = 1e-3
_CANCELLED = 0.1
_FADE = 256


def planar(frame: AudioFrame) -> Planar:
    """Samples of a decoded frame, float32 of shape (channels, samples), full scale 1.

    Samples that are no number, or far beyond full scale (broken float files), become 0 or ±1.
    """
    raw = cast("NDArray[Any]", frame.to_ndarray())
    if not frame.format.is_planar:
        raw = raw.reshape(-1, frame.layout.nb_channels).T
    if raw.dtype == np.uint8:
        return ((raw.astype(np.float32) - 128) / 128).astype(np.float32)
    if raw.dtype.kind == "i":
        return (raw / float(np.iinfo(raw.dtype).max + 1)).astype(np.float32)
    clean = np.nan_to_num(raw.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    return np.clip(clean, -1.0, 1.0, out=clean)


class Mixer:
    """Mixes channels to mono, block after block, with weights that follow who is heard.

    The mean of the channels that carry sound: a voice on one side alone keeps its level. Where
    they cancel (antiphase stereo), the loudest channel alone. The weights change in a short fade.
    """

    def __init__(self, names: list[str]) -> None:
        self._usable = np.array([name.upper() != "LFE" for name in names])
        if not self._usable.any():
            self._usable[:] = True
        self._energy = np.zeros(len(names))
        self._weights: NDArray[np.float32] | None = None

    def mix(self, block: Planar) -> NDArray[np.float32]:
        """Mono of a block (channels, samples), float32 (samples,)."""
        if len(block) == 1:
            return block[0]
        weights = self._choose(block)
        before = weights if self._weights is None else self._weights
        self._weights = weights
        mono = weights @ block
        if not np.array_equal(before, weights):
            count = min(_FADE, block.shape[1])
            ramp = np.linspace(0, 1, count, dtype=np.float32)
            mono[:count] = ramp * mono[:count] + (1 - ramp) * (before @ block[:, :count])
        return mono

    def _choose(self, block: Planar) -> NDArray[np.float32]:
        fresh = np.einsum("cs,cs->c", block, block) / max(1, block.shape[1])
        energy = np.maximum(fresh, 0.5 * self._energy) * self._usable
        self._energy = energy
        active = energy > _ACTIVE * energy.max()
        if not active.any():
            active = self._usable
        weights = (active / active.sum()).astype(np.float32)
        mono = weights @ block
        heard = float(mono @ mono) / max(1, block.shape[1])
        if heard < _CANCELLED * float(fresh[active].mean()) / active.sum():
            weights = np.zeros(len(block), np.float32)
            level = np.asarray(energy / max(float(energy.max()), 1e-12), np.float64)
            weights[int(level.round(1).argmax())] = 1
        return weights


class Resampler:
    """A stream of float32 mono at `source_hz` to int16 at `target_hz`, for recordings: slower and
    better than `audio.Resampler`, which live streams go through."""

    def __init__(self, source_hz: int, target_hz: int) -> None:
        same = source_hz == target_hz
        self._stream = None if same else soxr.ResampleStream(source_hz, target_hz, 1, quality="HQ")

    def push(self, mono: NDArray[np.float32], *, last: bool = False) -> NDArray[np.int16]:
        """What is ready after `mono`; `last` flushes the filter's tail."""
        if self._stream is not None:
            mono = self._stream.resample_chunk(np.ascontiguousarray(mono, np.float32), last=last)
        return to_int16(mono)

    def finish(self) -> NDArray[np.int16]:
        """The filter's tail."""
        return self.push(np.zeros(0, np.float32), last=True)
