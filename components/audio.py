"""Samples: int16 and float, channels, bytes off a wire, and a resampler that streams."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Protocol, cast

import numpy as np
import soxr
from numpy.typing import NDArray

from .errors import BadInput
from .frames import Audio, Samples

Floats = NDArray[np.float32]

MIN_RATE_HZ = 2_000
MAX_RATE_HZ = 384_000


def to_float(pcm: Samples) -> Floats:
    """int16 to float32 in -1..1 (full scale is 32768)."""
    return pcm.astype(np.float32) * np.float32(1 / 32768)


def to_int16(samples: NDArray[np.floating]) -> Samples:
    """Floats to int16: rounded, clipped at full scale, NaN becomes silence."""
    scaled = np.nan_to_num(samples * 32768, nan=0.0, posinf=32767, neginf=-32768)
    return np.clip(np.rint(scaled), -32768, 32767).astype(np.int16)


def downmix(pcm: Samples) -> Samples:
    """Interleaved channels of shape (samples, channels) to their mean; mono passes as it is."""
    if pcm.ndim == 1:
        return pcm
    if pcm.shape[1] == 1:
        return pcm[:, 0]
    return np.rint(pcm.mean(axis=1, dtype=np.float32)).astype(np.int16)


def check_rate(rate_hz: int, *, where: str = "audio", param: str | None = "rate") -> int:
    """The rate itself, if audio can have it.

    Raises:
        BadInput: it is outside 2 to 384 kHz.
    """
    if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
        raise BadInput(
            f"a sample rate of {rate_hz} Hz; possible: {MIN_RATE_HZ} to {MAX_RATE_HZ}",
            where=where,
            param=param,
        )
    return rate_hz


class PcmBytes:
    """Little-endian 16-bit samples out of chunks of bytes cut anywhere: half a sample waits."""

    def __init__(self) -> None:
        self._half = b""

    def push(self, data: bytes) -> Samples:
        """The whole samples so far; a read-only view of `data` where the cut allows."""
        if self._half:
            data = self._half + data
        whole = len(data) & ~1
        self._half = data[whole:]
        return np.frombuffer(data, "<i2", count=whole // 2).astype(np.int16, copy=False)


class _SoxrStream(Protocol):
    def resample_chunk(self, x: Samples, last: bool = False) -> Samples: ...

    def clear(self) -> None: ...


class Resampler:
    """Mono int16 from one rate to another, chunk by chunk, as if it were one signal.

    Whatever the chunks, `push` and one `flush` give round(samples * to_hz / from_hz) samples,
    aligned with the input; some come late, as the filter looks ahead. Equal rates pass through.

    Raises:
        BadInput: a rate is outside what audio has.
    """

    def __init__(self, from_hz: int, to_hz: int) -> None:
        self.from_hz = check_rate(from_hz)
        self.to_hz = check_rate(to_hz)
        self._stream: _SoxrStream | None = None
        if from_hz != to_hz:
            stream = soxr.ResampleStream(from_hz, to_hz, 1, dtype="int16", quality="MQ")
            self._stream = cast(_SoxrStream, stream)

    def push(self, pcm: Samples) -> Samples:
        """What is ready after these samples, of shape (samples,)."""
        if self._stream is None:
            return pcm
        return self._stream.resample_chunk(np.ascontiguousarray(pcm))

    def flush(self) -> Samples:
        """What the filter still holds; the next `push` begins a new signal."""
        if self._stream is None:
            return np.empty(0, np.int16)
        rest = self._stream.resample_chunk(np.empty(0, np.int16), last=True)
        self._stream.clear()
        return rest


def signal_at(pieces: Sequence[Audio], rate_hz: int) -> Floats:
    """Pieces of audio, of any rates, as one signal in -1..1 at `rate_hz`, of shape (samples,)."""
    parts = [np.empty(0, np.int16)]
    for from_hz, run in groupby(pieces, key=lambda piece: piece.rate_hz):
        pcm = np.concatenate([piece.pcm for piece in run])
        resampler = Resampler(from_hz, rate_hz)
        parts += [resampler.push(pcm), resampler.flush()]
    return to_float(np.concatenate(parts))
