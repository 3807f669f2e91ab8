"""From an engine's samples to clips that can be played one after the other."""

from __future__ import annotations

import numpy as np

from ..audio import Floats, to_int16
from ..errors import ComponentFailed
from ..frames import Samples

FLOOR_DB = -45.0
LEAD_MS, TAIL_MS = 20, 50
FADE_IN_MS, FADE_OUT_MS = 4, 12
KNEE, LOUDEST = 0.8, 0.95


def clip(samples: Floats, rate_hz: int, gain: float, *, where: str = "tts") -> Samples:
    """Speech without the engine's silence around it, `gain` times as loud, its ends faded.

    Peaks beyond the range are bent, not cut, so that a loud word doesn't crackle.

    Raises:
        ComponentFailed: there are NaNs or infinities in it.
    """
    if not np.isfinite(samples).all():
        raise ComponentFailed("the engine gave samples that are no numbers", where=where)
    speech = soften(trim(samples, rate_hz) * np.float32(gain))
    return to_int16(fade(speech, rate_hz))


def trim(samples: Floats, rate_hz: int) -> Floats:
    """Cut silence (45 dB below the loudest 5 ms) at both ends to 20 and 50 ms."""
    step = max(rate_hz // 200, 1)
    count = len(samples) // step
    if not count:
        return samples
    power = np.square(samples[: count * step]).reshape(count, step).mean(axis=1)
    loud = np.flatnonzero(power > power.max() * 10 ** (FLOOR_DB / 10))
    if not len(loud) or power.max() <= 1e-10:
        return samples[:0]
    start = max(int(loud[0]) * step - rate_hz * LEAD_MS // 1000, 0)
    end = (int(loud[-1]) + 1) * step + rate_hz * TAIL_MS // 1000
    return samples[start:end]


def soften(samples: Floats) -> Floats:
    """Bend what is above 0.8 towards 0.95 of full scale; what is below stays as it is."""
    size = np.abs(samples)
    room = LOUDEST - KNEE
    bent = KNEE + room * np.tanh((size - KNEE) / room)
    return np.where(size > KNEE, np.sign(samples) * bent, samples).astype(np.float32)


def fade(samples: Floats, rate_hz: int) -> Floats:
    """Begin and end at zero."""
    out = samples.astype(np.float32, copy=True)
    rise = min(rate_hz * FADE_IN_MS // 1000, len(out) // 2)
    fall = min(rate_hz * FADE_OUT_MS // 1000, len(out) // 2)
    if rise and fall:
        out[:rise] *= np.linspace(0, 1, rise, dtype=np.float32)
        out[-fall:] *= np.linspace(1, 0, fall, dtype=np.float32)
    return out


def stretch(samples: Floats, rate_hz: int, factor: float) -> Floats:
    """Make speech `factor` times as long without a change of pitch.

    WSOLA (Verhelst and Roelands, 1993): windows of 30 ms are laid over each other at half their
    length, each taken from within 8 ms of its place, where it fits the last one best.
    """
    half = rate_hz * 15 // 1000
    reach = rate_hz * 8 // 1000
    if factor == 1.0 or len(samples) < 4 * half:
        return samples
    padded = np.concatenate([samples, np.zeros(2 * half + 2 * reach, np.float32)])
    window = np.hanning(2 * half + 1)[:-1].astype(np.float32)
    steps = int(len(samples) * factor) // half
    out = np.zeros((steps + 2) * half, np.float32)
    follows = padded[: 2 * half]
    for step in range(steps):
        low = max(int(step * half / factor) - reach, 0)
        area = padded[low : low + 2 * half + 2 * reach]
        if len(area) < 2 * half:
            break
        at = low + _best(area, follows)
        out[step * half : (step + 2) * half] += padded[at : at + 2 * half] * window
        follows = padded[at + half : at + 3 * half]
    return out[: int(len(samples) * factor)]


def _best(area: Floats, wanted: Floats) -> int:
    """Where in `area` a window looks most like `wanted` (cross-correlation, unit energy)."""
    if len(wanted) > len(area):
        return 0
    alike = np.correlate(area, wanted, mode="valid")
    energy = np.cumsum(np.concatenate([[0.0], np.square(area, dtype=np.float64)]))
    norm = np.sqrt(energy[len(wanted) :] - energy[: -len(wanted)] + 1e-6)
    return int(np.argmax(alike / norm[: len(alike)]))
