"""A phone line's audio: the caller's encoding to the session's, and replies cut to its size."""

from __future__ import annotations

import base64
import binascii

from ...components.audio import PcmBytes, Resampler
from ...components.errors import BadInput
from .dialects import Dialect, Started

PIECE_MS = 200
_DOOR_HZ = 24_000
_SILENCE = {"pcmu": b"\xff", "pcma": b"\xd5", "l16": b"\0"}


class Line:
    """One call's audio, both ways. G.711 passes as it is; linear PCM is resampled, statefully."""

    def __init__(self, dialect: Dialect, started: Started) -> None:
        self._dialect = dialect
        self.encoding = started.encoding
        self.rate_hz = started.rate_hz
        self._width = 2 if self.encoding == "l16" else 1
        self._bytes = PcmBytes()
        self._up = Resampler(self.rate_hz, _DOOR_HZ)
        self._down = Resampler(_DOOR_HZ, self.rate_hz)
        self._waiting = b""

    @property
    def format(self) -> dict[str, object]:
        """The audio format for a realtime session."""
        if self.encoding == "l16":
            return {"type": "audio/pcm", "rate": _DOOR_HZ}
        return {"type": f"audio/{self.encoding}"}

    def heard(self, payload: str) -> str:
        """A frame from the caller as the session takes it, both base64.

        Raises:
            BadInput: it isn't base64.
        """
        try:
            data = base64.b64decode(payload, validate=True)
        except (binascii.Error, ValueError):
            raise BadInput("the media payload isn't base64", param="payload") from None
        if self.encoding != "l16":
            return payload
        pcm = self._up.push(self._bytes.push(data))
        return base64.b64encode(pcm.astype("<i2", copy=False).tobytes()).decode()

    def say(self, delta: str) -> list[bytes]:
        """The pieces that are ready for the caller after this much of a reply."""
        self._waiting += self._encode(base64.b64decode(delta))
        ready: list[bytes] = []
        most = self._piece_bytes
        least = max(self._dialect.least_bytes, 1)
        while len(self._waiting) >= least:
            size = min(most, len(self._waiting))
            size -= size % self._dialect.quantum_bytes
            ready.append(self._waiting[:size])
            self._waiting = self._waiting[size:]
        return ready

    def finish(self) -> list[bytes]:
        """The rest of a reply, filled up with silence where the carrier wants whole blocks."""
        if self.encoding == "l16":
            self._waiting += self._down.flush().astype("<i2", copy=False).tobytes()
        rest, self._waiting = self._waiting, b""
        if not rest:
            return []
        quantum = self._dialect.quantum_bytes
        size = max(-(-len(rest) // quantum) * quantum, self._dialect.least_bytes)
        return [rest + _SILENCE[self.encoding] * (size - len(rest))]

    def drop(self) -> None:
        """Forget what of a reply wasn't sent yet."""
        self._waiting = b""
        self._down.flush()

    def duration_ms(self, piece: bytes) -> float:
        """How long a piece plays."""
        return len(piece) / self._width * 1000 / self.rate_hz

    @property
    def _piece_bytes(self) -> int:
        return self.rate_hz * self._width * PIECE_MS // 1000

    def _encode(self, data: bytes) -> bytes:
        if self.encoding != "l16":
            return data
        return self._down.push(PcmBytes().push(data)).astype("<i2", copy=False).tobytes()
