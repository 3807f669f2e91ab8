"""Log-mel spectrograms as Whisper was trained on: 25 ms windows each 10 ms, Slaney's mel scale.

Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision" (2022), section 2.2.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from .audio import Floats

RATE_HZ = 16_000
HOP = 160
FFT = 400
FRAMES_PER_S = RATE_HZ // HOP
_FLOOR = 1e-10
_RANGE_LOG10 = 8.0
_BLOCK_FRAMES = 8


def _hz_of_mel(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    """Slaney's scale: linear up to 1 kHz (mel 15), then 27 steps per factor of 6.4."""
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))


@cache
def filterbank(mels: int) -> Floats:
    """Triangles of equal area over 0..8 kHz, of shape (mels, 201)."""
    top = 15 + 27 * float(np.log(RATE_HZ / 2 / 1000) / np.log(6.4))
    scale: NDArray[np.float64] = np.linspace(0, top, mels + 2, dtype=np.float64)
    edges = _hz_of_mel(scale)[:, None]
    bins = np.fft.rfftfreq(FFT, 1 / RATE_HZ)[None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    triangles = np.maximum(0, np.minimum(rising, falling))
    return (triangles * 2 / (edges[2:] - edges[:-2])).astype(np.float32)


@cache
def _window() -> Floats:
    return np.hanning(FFT + 1)[:-1].astype(np.float32)


def _banded(power: Floats, mels: int) -> Floats:
    """Power of shape (frames, 201) in mel bands, of shape (mels, frames).

    A few frames at a time: a large product would wake the threads of numpy's BLAS, which spin.
    """
    bands = np.empty((mels, len(power)), np.float32)
    for start in range(0, len(power), _BLOCK_FRAMES):
        block = slice(start, start + _BLOCK_FRAMES)
        bands[:, block] = filterbank(mels) @ power[block].T
    return bands


def log_mel(samples: Floats, *, mels: int = 80, frames: int | None = None) -> Floats:
    """The spectrogram of a signal, of shape (mels, frames), roughly in -1..1.

    `samples` of shape (samples,) in -1..1 at 16 kHz. `frames` (default: one per whole 10 ms) above
    what the signal has are filled as if silence followed, at no cost.
    """
    have = len(samples) // HOP
    frames = have if frames is None else frames
    # Silence of one window behind the signal is computed, since it still sees the signal.
    counted = min(frames, have + 3)
    tail = max(0, counted * HOP - len(samples))
    padded = np.pad(np.pad(samples, (0, tail)), (FFT // 2, FFT // 2), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP][:counted]
    spectrum = np.fft.rfft(windows * _window(), axis=1)
    power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32, copy=False)
    logs = np.log10(np.maximum(_banded(power, mels), _FLOOR))
    least = max(float(logs.max(initial=np.log10(_FLOOR))) - _RANGE_LOG10, np.log10(_FLOOR))
    whole = np.full((mels, frames), least, np.float32)
    np.maximum(logs, least, out=whole[:, :counted])
    whole += 4
    whole /= 4
    return whole
