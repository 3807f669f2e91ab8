"""Audio on the realtime wire: base64 of PCM at 24 kHz or G.711 at 8 kHz, to and from samples."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...components.audio import PcmBytes, Resampler
from ...components.frames import Samples
from ...components.g711 import alaw_decode, alaw_encode, ulaw_decode, ulaw_encode
from .faults import ClientError

Encoding = Literal["audio/pcm", "audio/pcmu", "audio/pcma"]

MAX_APPEND_BYTES = 15 << 20

_BETA_NAMES: dict[str, Encoding] = {
    "pcm16": "audio/pcm",
    "g711_ulaw": "audio/pcmu",
    "g711_alaw": "audio/pcma",
}


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """One of the three formats of the protocol."""

    encoding: Encoding = "audio/pcm"

    @property
    def rate_hz(self) -> int:
        """Samples per second."""
        return 24_000 if self.encoding == "audio/pcm" else 8_000

    def wire(self) -> dict[str, Any]:
        """As it stands in a session."""
        if self.encoding == "audio/pcm":
            return {"type": self.encoding, "rate": self.rate_hz}
        return {"type": self.encoding}

    @classmethod
    def of(cls, name: str, rate_hz: int | None = None, *, param: str) -> AudioFormat:
        """The format of that name, in the names of either generation of the protocol.

        Raises:
            ClientError: the rate isn't the format's.
        """
        made = cls(_BETA_NAMES.get(name, name))  # pyright: ignore[reportArgumentType]
        if rate_hz is not None and rate_hz != made.rate_hz:
            raise ClientError(
                "invalid_value",
                f"A rate of {rate_hz} Hz; {made.encoding} has {made.rate_hz} Hz.",
                f"{param}.rate",
            )
        return made


class AudioDecoder:
    """A client's audio to samples, append by append: a sample may be cut between two of them."""

    def __init__(self, format: AudioFormat) -> None:
        self.format = format
        self._pcm = PcmBytes()

    def push(self, text: str) -> Samples:
        """The whole samples of one base64 text, of shape (samples,).

        Raises:
            ClientError: it isn't base64, or longer than 15 MiB.
        """
        data = decode_base64(text)
        if self.format.encoding == "audio/pcmu":
            return ulaw_decode(data)
        if self.format.encoding == "audio/pcma":
            return alaw_decode(data)
        return self._pcm.push(data)


def decode_base64(text: str, param: str = "audio") -> bytes:
    """The bytes of a base64 text.

    Raises:
        ClientError: it isn't base64, or longer than 15 MiB.
    """
    if len(text) > MAX_APPEND_BYTES * 4 // 3 + 4:
        raise ClientError(
            "invalid_value", f"More than {MAX_APPEND_BYTES} bytes in one field.", param
        )
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ClientError("invalid_value", "It isn't valid base64.", param) from None


class AudioEncoder:
    """Samples of any rate to the client's format, as one continuous signal."""

    def __init__(self, format: AudioFormat) -> None:
        self.format = format
        self._resampler: Resampler | None = None

    def push(self, pcm: Samples, rate_hz: int) -> list[bytes]:
        """What is ready after these samples, in pieces of whole samples and at most a second."""
        ready: list[Samples] = []
        if self._resampler is None or self._resampler.from_hz != rate_hz:
            ready.append(self._rest())
            self._resampler = Resampler(rate_hz, self.format.rate_hz)
        ready.append(self._resampler.push(pcm))
        return self._encode(np.concatenate(ready))

    def flush(self) -> list[bytes]:
        """What the resampler still holds back."""
        return self._encode(self._rest())

    def duration_ms(self, data: bytes) -> float:
        """How long encoded bytes play."""
        width = 2 if self.format.encoding == "audio/pcm" else 1
        return len(data) / width * 1000 / self.format.rate_hz

    def _rest(self) -> Samples:
        return np.empty(0, np.int16) if self._resampler is None else self._resampler.flush()

    def _encode(self, pcm: Samples) -> list[bytes]:
        second = self.format.rate_hz
        pieces = [pcm[start : start + second] for start in range(0, len(pcm), second)]
        if self.format.encoding == "audio/pcmu":
            return [ulaw_encode(np.ascontiguousarray(piece)) for piece in pieces]
        if self.format.encoding == "audio/pcma":
            return [alaw_encode(np.ascontiguousarray(piece)) for piece in pieces]
        return [piece.astype("<i2", copy=False).tobytes() for piece in pieces]
