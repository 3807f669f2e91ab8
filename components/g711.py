"""G.711: the µ-law and A-law codecs of telephony, 8 bits per sample, as lookup tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .frames import Samples

_Ints = NDArray[np.int32]


def _segments(magnitudes: _Ints, first_end: int) -> _Ints:
    """The segment 0..7 (8 above the last) of each magnitude; ends double from `first_end`."""
    ends = np.array([((first_end + 1) << n) - 1 for n in range(8)])
    return np.searchsorted(ends, magnitudes).astype(np.int32)


def _ulaw_bytes() -> NDArray[np.uint8]:
    """µ-law of every int16, indexed by its bits as uint16 (ITU-T G.711, table 2)."""
    pcm = np.arange(65536, dtype=np.uint16).view(np.int16).astype(np.int32) >> 2
    magnitude = np.minimum(np.abs(pcm), 8159) + 33
    segment = _segments(magnitude, 0x3F)
    code = (segment << 4) | ((magnitude >> (segment + 1)) & 0xF)
    code = np.where(segment > 7, 0x7F, code)
    return (code ^ np.where(pcm < 0, 0x7F, 0xFF)).astype(np.uint8)


def _alaw_bytes() -> NDArray[np.uint8]:
    """A-law of every int16, indexed by its bits as uint16 (ITU-T G.711, table 1)."""
    pcm = np.arange(65536, dtype=np.uint16).view(np.int16).astype(np.int32) >> 3
    magnitude = np.where(pcm < 0, -pcm - 1, pcm)
    segment = _segments(magnitude, 0x1F)
    code = (segment << 4) | ((magnitude >> np.maximum(segment, 1)) & 0xF)
    return (code ^ np.where(pcm < 0, 0x55, 0xD5)).astype(np.uint8)


def _ulaw_samples() -> Samples:
    code = ~np.arange(256, dtype=np.int32) & 0xFF
    magnitude = ((((code & 0xF) << 3) + 0x84) << ((code >> 4) & 7)) - 0x84
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


def _alaw_samples() -> Samples:
    code = np.arange(256, dtype=np.int32) ^ 0x55
    segment = (code >> 4) & 7
    mantissa = ((code & 0xF) << 4) + np.where(segment == 0, 0x8, 0x108)
    magnitude = mantissa << np.maximum(segment - 1, 0)
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


_ULAW_BYTES = _ulaw_bytes()
_ALAW_BYTES = _alaw_bytes()
_ULAW_SAMPLES = _ulaw_samples()
_ALAW_SAMPLES = _alaw_samples()


def ulaw_encode(pcm: Samples) -> bytes:
    """int16 samples to µ-law, one byte each; 14 of the 16 bits count."""
    return _ULAW_BYTES[pcm.view(np.uint16)].tobytes()


def ulaw_decode(data: bytes) -> Samples:
    """µ-law bytes to int16 samples."""
    return _ULAW_SAMPLES[np.frombuffer(data, np.uint8)]


def alaw_encode(pcm: Samples) -> bytes:
    """int16 samples to A-law, one byte each; 13 of the 16 bits count."""
    return _ALAW_BYTES[pcm.view(np.uint16)].tobytes()


def alaw_decode(data: bytes) -> Samples:
    """A-law bytes to int16 samples."""
    return _ALAW_SAMPLES[np.frombuffer(data, np.uint8)]
