"""Media files for tests, made in memory, and the way back through `MediaReader`."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import av
import numpy as np

from motet.components.media_read import MediaReader


def tone(seconds: float, rate_hz: int = 44_100, hz: float = 440.0) -> np.ndarray:
    time_s = np.arange(int(seconds * rate_hz)) / rate_hz
    return (np.sin(2 * np.pi * hz * time_s) * 8000).astype(np.int16)


def encode(
    pcm: np.ndarray, rate_hz: int, codec: str, container: str, layout: str = "mono"
) -> bytes:
    """`pcm` is (channels, samples) or (samples,)."""
    out = io.BytesIO()
    with av.open(out, "w", format=container) as file:
        stream = file.add_stream(codec, rate=rate_hz, layout=layout)
        packed = np.ascontiguousarray(np.atleast_2d(pcm).T.reshape(1, -1))
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(packed), format="s16", layout=layout
        )
        frame.rate = rate_hz
        frame.pts = 0
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            file.mux(packet)
    return out.getvalue()


def wav(pcm: np.ndarray, rate_hz: int = 16_000) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1 if pcm.ndim == 1 else len(pcm))
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(np.ascontiguousarray(pcm.T).tobytes())
    return out.getvalue()


def read(path: Path, data: bytes, **options) -> tuple[np.ndarray, MediaReader]:
    path.write_bytes(data)
    reader = MediaReader(path, **options)
    return np.concatenate(list(reader), axis=1), reader


def seconds(pcm: np.ndarray) -> float:
    return pcm.shape[1] / 16_000
