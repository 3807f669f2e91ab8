"""Opening audio and video files: what is in them, safely, with errors that a caller can act on."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import av
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.error import FFmpegError
from av.video.stream import VideoStream

from .errors import BadInput

DEMUXERS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dsf,dts,eac3,flac,flv,gsm,loas,matroska,mov,mp3,"
    "mp4,mpc,mpc8,mpeg,mpegts,mxf,nut,ogg,rm,tak,truehd,tta,voc,w64,wav,webm,wv"
)
"""Containers that are read; no playlists (HLS, DASH, concat): those name other files."""

OPEN_OPTIONS = {"format_whitelist": DEMUXERS, "protocol_whitelist": "file"}
"""For `av.open`: nothing but files of these kinds, whatever a file says."""
_UNKNOWN_SIZES = (0, 0xFFFFFFFF, 0xFFFFFFFF - 8, 0x7FFFFFFF)


@dataclass(frozen=True, slots=True)
class MediaInfo:
    """What a file says of its audio; `duration_s` is the header's word, None where it has none."""

    duration_s: float | None
    channels: int
    layout: str
    rate_hz: int
    codec: str
    container: str
    video: bool


@dataclass(frozen=True, slots=True)
class Part:
    """One recording inside a file that may hold several behind each other: `size` bytes at `start`.

    `missing_bytes` is what its header promises beyond the end of the file; `endless` says that
    there is more sound than the header promises.
    """

    start: int
    size: int
    missing_bytes: int = 0
    endless: bool = False


def probe(path: str | Path, name: str = "") -> MediaInfo:
    """What audio a file holds, read from its header.

    Raises:
        BadInput: it is missing, empty, no media or without audio; `name` is what messages call it.
    """
    name = name or Path(path).name
    first = parts(path, name)[0]
    with open_media(path, first, name) as (container, stream):
        return describe(container, stream)


def describe(container: InputContainer, stream: AudioStream) -> MediaInfo:
    """The facts of an open container and its audio stream."""
    context = stream.codec_context
    return MediaInfo(
        duration_s=duration_of(container, stream),
        channels=context.channels,
        layout=context.layout.name,
        rate_hz=context.sample_rate,
        codec=context.name,
        container=container.format.name,
        video=any(not _is_cover(stream.disposition) for stream in container.streams.video),
    )


def duration_of(container: InputContainer, stream: AudioStream | VideoStream) -> float | None:
    """Seconds by the stream's header, else the container's; None where neither tells."""
    if stream.duration and stream.time_base:
        seconds = float(stream.duration * stream.time_base)
    else:
        seconds = (container.duration or 0) / 1e6
    return seconds if seconds > 0 else None


def _is_cover(disposition: object) -> bool:
    return "attached_pic" in str(disposition)


@contextmanager
def open_media(
    path: str | Path, part: Part, name: str
) -> Generator[tuple[InputContainer, AudioStream]]:
    """Open one part of a file and its best audio stream; closes both behind the caller.

    Raises:
        BadInput: it can't be read as media, or has no audio.
    """
    whole = part.start == 0 and part.size >= Path(path).stat().st_size
    with open(path, "rb") as file:
        source = file if whole else cast("BinaryIO", Window(file, part.start, part.size))
        try:
            options = {"ignore_length": "1"} if part.endless else {}
            container = av.open(source, mode="r", options=OPEN_OPTIONS | options)
        except (FFmpegError, ValueError, UnicodeDecodeError) as error:
            raise BadInput(
                f"{name!r} can't be read as audio or video ({_reason(error)})", param="file"
            ) from error
        with container:
            yield container, _audio_stream(container, name)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__


def _audio_stream(container: InputContainer, name: str) -> AudioStream:
    stream = container.streams.best("audio")
    if stream is None:
        held = ", ".join(f"{each.type} ({each.codec_context.name})" for each in _coded(container))
        raise BadInput(f"{name!r} has no audio track; it holds {held or 'nothing'}", param="file")
    stream = cast("AudioStream", stream)
    try:
        rate_hz, channels = stream.codec_context.sample_rate, stream.codec_context.channels
    except ValueError:
        rate_hz, channels = 0, 0
    if not (100 <= rate_hz <= 1_000_000 and channels):
        raise BadInput(
            f"{name!r} has an audio track without usable parameters"
            f" ({rate_hz} Hz, {channels} channels)",
            param="file",
        )
    return stream


def _coded(container: InputContainer) -> list[AudioStream]:
    streams = cast("list[AudioStream]", list(container.streams))
    return [each for each in streams if getattr(each, "codec_context", None) is not None]


def parts(path: str | Path, name: str) -> list[Part]:
    """The recordings inside a file: one, or several where RIFF or MP4 files were concatenated.

    FFmpeg reads concatenated MP3, FLAC and Ogg by itself, but stops behind the first of these.

    Raises:
        BadInput: it doesn't exist, is no file, or is empty.
    """
    place = Path(path)
    if place.is_dir():
        raise BadInput(f"{str(path)!r} is a folder; name the files in it", param="file")
    if not place.is_file():
        raise BadInput(f"{name!r} doesn't exist or isn't a file", param="file")
    size = place.stat().st_size
    if size == 0:
        raise BadInput(f"{name!r} is empty (0 bytes)", param="file")
    with place.open("rb") as file:
        head = file.read(12)
        if head[:4] == b"RIFF" and head[8:] == b"WAVE":
            return _riff_parts(file, size)
        if head[4:8] == b"ftyp":
            return _mp4_parts(file, size)
    return [Part(0, size)]


def _riff_parts(file: BinaryIO, size: int) -> list[Part]:
    found: list[Part] = []
    start = 0
    while start < size:
        file.seek(start)
        head = file.read(12)
        if len(head) < 12 or head[:4] != b"RIFF" or head[8:] != b"WAVE":
            break
        (riff,) = struct.unpack("<I", head[4:8])
        if riff in _UNKNOWN_SIZES:
            found.append(Part(start, size - start))
            break
        end = min(start + 8 + riff + riff % 2, size)
        found.append(Part(start, end - start, max(0, start + 8 + riff - size)))
        start = end
    return _reaching(file, found, size)


def _mp4_parts(file: BinaryIO, size: int) -> list[Part]:
    starts: list[int] = []
    place = 0
    while place + 8 <= size:
        file.seek(place)
        head = file.read(16)
        (length,) = struct.unpack(">I", head[:4])
        if length == 1 and len(head) == 16:
            (length,) = struct.unpack(">Q", head[8:])
        if head[4:8] == b"ftyp":
            starts.append(place)
        if length < 8:
            break
        place += length
    bounds = [*starts, size] if starts else [0, size]
    return [Part(start, end - start) for start, end in itertools.pairwise(bounds)]


def _reaching(file: BinaryIO, found: list[Part], size: int) -> list[Part]:
    """Let the last part run to the end of the file: headers often say too little (live writers)."""
    last = found[-1]
    endless = _goes_on(file, last.start + 12, size)
    return [*found[:-1], Part(last.start, size - last.start, last.missing_bytes, endless)]


def _goes_on(file: BinaryIO, place: int, size: int) -> bool:
    """Whether a RIFF's sound goes on behind its end: what follows is no chunk."""
    sound = False
    while place + 8 <= size:
        file.seek(place)
        kind, length = struct.unpack("<4sI", file.read(8))
        if not (kind.isascii() and kind.decode("ascii").isprintable()):
            return sound
        sound = sound or kind == b"data"
        place += 8 + length + length % 2
    return False


class Window:
    """A seekable, read-only view of `size` bytes of a file from `start`."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file = file
        self._start = start
        self._size = size
        self._place = 0

    def read(self, count: int = -1) -> bytes:
        """Up to `count` bytes, none at the end."""
        left = max(0, self._size - self._place)
        self._file.seek(self._start + self._place)
        data = self._file.read(left if count < 0 else min(count, left))
        self._place += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move as `io` does."""
        base = (0, self._place, self._size)[whence]
        self._place = max(0, base + offset)
        return self._place

    def tell(self) -> int:
        """Where the next read starts."""
        return self._place
