"""Audio as gRPC clients send and want it: bytes in some coding, at some rate, in pieces."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import numpy as np

from ...components.audio import PcmBytes, Resampler, check_rate, downmix
from ...components.errors import BadInput
from ...components.frames import Audio, Samples
from ...components.g711 import alaw_decode, alaw_encode, ulaw_decode, ulaw_encode

ENCODINGS = ("pcm_s16le", "mulaw", "alaw")
PIECE_MS = 100
_WAV_CODES = {1: "pcm_s16le", 6: "alaw", 7: "mulaw"}


@dataclass(frozen=True, slots=True)
class Format:
    """How audio is coded: one of `ENCODINGS`, the rate, interleaved channels."""

    encoding: str = "pcm_s16le"
    rate_hz: int = 16_000
    channels: int = 1

    def checked(self) -> Format:
        """Itself, if it is possible.

        Raises:
            BadInput: an unknown encoding, an impossible rate or number of channels.
        """
        if self.encoding not in ENCODINGS:
            raise BadInput(
                f"encoding {self.encoding!r} isn't read; possible: {', '.join(ENCODINGS)}",
                where="audio",
                param="encoding",
            )
        check_rate(self.rate_hz, param="rate_hz")
        if not 1 <= self.channels <= 8:
            raise BadInput(
                f"{self.channels} channels; possible: 1 to 8", where="audio", param="channels"
            )
        return self


class Decoder:
    """Bytes of a format, cut anywhere, to mono samples."""

    def __init__(self, form: Format) -> None:
        self._form = form.checked()
        self._pcm = PcmBytes()
        self._rest = np.empty(0, np.int16)

    def push(self, data: bytes) -> Samples:
        """The samples of these bytes; what is cut off waits for the next ones."""
        match self._form.encoding:
            case "mulaw":
                samples = ulaw_decode(data)
            case "alaw":
                samples = alaw_decode(data)
            case _:
                samples = self._pcm.push(data)
        if self._form.channels == 1:
            return samples
        samples = np.concatenate((self._rest, samples))
        whole = len(samples) - len(samples) % self._form.channels
        self._rest = samples[whole:]
        return downmix(samples[:whole].reshape(-1, self._form.channels))


def frames_of(samples: Samples, rate_hz: int, start_ms: float) -> Iterator[Audio]:
    """Samples as frames of at most `PIECE_MS`."""
    step = max(1, rate_hz * PIECE_MS // 1000)
    for begin in range(0, len(samples), step):
        yield Audio(samples[begin : begin + step], rate_hz, start_ms + begin * 1000 / rate_hz)


async def audio_of(chunks: AsyncIterator[bytes], form: Format) -> AsyncIterator[Audio]:
    """A stream of bytes as frames with their place on the stream.

    A WAV header in the first chunk is left out: clients that stream a file send it along.
    """
    decoder, count, first = Decoder(form), 0, True
    async for chunk in chunks:
        samples = decoder.push(_without_header(chunk) if first else chunk)
        first = False
        for frame in frames_of(samples, form.rate_hz, count * 1000 / form.rate_hz):
            yield frame
        count += len(samples)


def _without_header(chunk: bytes) -> bytes:
    if chunk[:4] != b"RIFF" or chunk[8:12] != b"WAVE" or b"data" not in chunk:
        return chunk
    return chunk[chunk.index(b"data") + 8 :]


def unwrap(data: bytes, form: Format | None) -> tuple[bytes, Format]:
    """The samples' bytes and their format: a WAV file says its own, anything else needs `form`.

    Raises:
        BadInput: it is no WAV file and has no format, or a WAV file that isn't read.
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return _unwrap_wav(data)
    if form is None:
        raise BadInput(
            f"audio without a format must be a WAV file; else say one of {', '.join(ENCODINGS)}",
            where="audio",
            param="encoding",
        )
    return data, form.checked()


def _unwrap_wav(data: bytes) -> tuple[bytes, Format]:
    form: Format | None = None
    at = 12
    while at + 8 <= len(data):
        name, size = data[at : at + 4], struct.unpack_from("<I", data, at + 4)[0]
        body = data[at + 8 : at + 8 + size]
        if name == b"fmt " and len(body) >= 16:
            code, channels, rate_hz, _, _, bits = struct.unpack_from("<HHIIHH", body)
            if code == 0xFFFE and len(body) >= 26:
                code = struct.unpack_from("<H", body, 24)[0]
            if code not in _WAV_CODES or bits != (16 if code == 1 else 8):
                raise BadInput(
                    f"WAV of coding {code} with {bits} bits isn't read; possible: 16-bit PCM,"
                    " µ-law, A-law",
                    where="audio",
                    param="audio",
                )
            form = Format(_WAV_CODES[code], rate_hz, channels).checked()
        elif name == b"data" and form is not None:
            return body, form
        at += 8 + size + size % 2
    raise BadInput("a WAV file without format or data", where="audio", param="audio")


class Encoder:
    """Frames of speech to bytes at the rate and in the encoding asked for."""

    def __init__(self, encoding: str, rate_hz: int) -> None:
        self._form = Format(encoding, rate_hz or 16_000).checked()
        self.rate_hz = rate_hz
        self._resampler: Resampler | None = None

    def push(self, frame: Audio) -> bytes:
        """The bytes of a frame; the resampler may keep some for later."""
        if not self.rate_hz:
            self.rate_hz = frame.rate_hz
        if self._resampler is None or self._resampler.from_hz != frame.rate_hz:
            rest = self.flush()
            self._resampler = Resampler(frame.rate_hz, self.rate_hz)
            return rest + self._code(self._resampler.push(frame.pcm))
        return self._code(self._resampler.push(frame.pcm))

    def flush(self) -> bytes:
        """What is still held."""
        return self._code(self._resampler.flush()) if self._resampler else b""

    def _code(self, samples: Samples) -> bytes:
        match self._form.encoding:
            case "mulaw":
                return ulaw_encode(samples)
            case "alaw":
                return alaw_encode(samples)
            case _:
                return samples.astype("<i2", copy=False).tobytes()
