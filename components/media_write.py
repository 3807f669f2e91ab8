"""Encoding speech as it is made: mp3, opus, aac, flac, wav or raw PCM, a piece at a time."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any, Literal, cast

import av
import numpy as np

from .frames import Samples

AudioFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
MEDIA_TYPES: dict[AudioFormat, str] = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg; codecs=opus",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}

# Container, codec, bits per second, and what makes the muxer give its bytes away at once.
_ENCODERS: dict[str, tuple[str, str, int | None, dict[str, str]]] = {
    "mp3": ("mp3", "libmp3lame", 64_000, {"write_xing": "0", "id3v2_version": "0"}),
    "opus": ("ogg", "libopus", 32_000, {"page_duration": "20000"}),
    "aac": ("adts", "aac", 64_000, {}),
    "flac": ("flac", "flac", None, {}),
}
_STREAMED = 0xFFFFFFFF


class SpeechEncoder:
    """Encodes mono int16 at `rate_hz`; `push` and `finish` return the bytes that are ready.

    WAV says in its header that its length isn't known, since it isn't yet.
    """

    def __init__(self, audio_format: AudioFormat, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._out = _Sink()
        self._container: Any = None
        self._stream: Any = None
        self._samples = 0
        if audio_format == "wav":
            self._out.write(_wav_header(rate_hz))
        elif audio_format != "pcm":
            container, codec, bits, options = _ENCODERS[audio_format]
            self._container = cast("Any", av).open(
                self._out,
                mode="w",
                format=container,
                buffer_size=1024,
                options={"flush_packets": "1", **options},
            )
            self._stream = self._container.add_stream(codec, rate=rate_hz, layout="mono")
            if bits is not None:
                self._stream.bit_rate = bits

    def push(self, pcm: Samples) -> bytes:
        """The bytes that are ready once `pcm` is in."""
        if self._container is None:
            self._out.write(pcm.astype("<i2").tobytes())
            return self._out.take()
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(pcm[None]), format="s16", layout="mono"
        )
        frame.sample_rate = self._rate_hz
        frame.pts = self._samples
        frame.time_base = Fraction(1, self._rate_hz)
        self._samples += len(pcm)
        for packet in self._stream.encode(frame):
            self._container.mux(packet)
        return self._out.take()

    def finish(self) -> bytes:
        """The last bytes; the encoder is done."""
        if self._container is not None:
            for packet in self._stream.encode(None):
                self._container.mux(packet)
            self._container.close()
        return self._out.take()


class _Sink:
    """What the muxer writes to; not seekable, so it writes streams."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: bytes) -> int:
        self._data += data
        return len(data)

    def take(self) -> bytes:
        """What was written since the last call."""
        data = bytes(self._data)
        self._data.clear()
        return data


def _wav_header(rate_hz: int) -> bytes:
    fmt = struct.pack("<HHIIHH", 1, 1, rate_hz, rate_hz * 2, 2, 16)
    return (
        b"RIFF"
        + struct.pack("<I", _STREAMED)
        + b"WAVEfmt "
        + struct.pack("<I", len(fmt))
        + fmt
        + b"data"
        + struct.pack("<I", _STREAMED)
    )
