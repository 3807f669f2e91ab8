"""Reading a file's audio as a stream: packet by packet, in constant memory, past what is broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from av import AudioFrame
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.error import FFmpegError
from numpy.typing import NDArray

from .errors import BadInput
from .media import MediaInfo, Part, describe, open_media, parts
from .media_mix import Mixer, Planar, Resampler, planar

Block = NDArray[np.int16]

RATE_HZ = 16_000
_FAILURES_IN_A_ROW = 32
_GAP_S = 0.05
_LONGEST_GAP_S = 600.0


@dataclass(slots=True)
class ReadReport:
    """What was met while reading; grows as the file is read.

    `bad_packets` couldn't be decoded; the time they stand for is silence in the output, as are
    other gaps in the file's own clock: `filled_s` in all. `truncated_s` is what the header
    promises and the file lacks.
    """

    read_s: float = 0.0
    bad_packets: int = 0
    filled_s: float = 0.0
    truncated_s: float = 0.0


class MediaReader:
    """Iterates the audio of a file as int16 blocks (tracks, samples) of about `block_s`.

    One track of mono, or with `split` one for each channel (call recordings: one per speaker).
    Iterate once; blocking, so off the event loop. `info` is the header's, `report` grows meanwhile.

    Raises:
        BadInput: at construction, if it can't be read as media or has no audio; while iterating,
            if nothing could be decoded or the audio is longer than `limit_s`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        name: str = "",
        split: bool = False,
        rate_hz: int = RATE_HZ,
        block_s: float = 1.0,
        limit_s: float = 48 * 3600.0,
    ) -> None:
        self.name = name or Path(path).name
        self.rate_hz = rate_hz
        self.report = ReadReport()
        self._path = path
        self.block_s = block_s
        self._limit_s = limit_s
        self._parts = parts(path, self.name)
        with open_media(path, self._parts[0], self.name) as (container, stream):
            self.info: MediaInfo = describe(container, stream)
        self.tracks = self.info.channels if split else 1

    def __iter__(self) -> Iterator[Block]:
        samples = 0
        for part in self._parts:
            for block in self._read_part(part):
                samples += block.shape[1]
                self.report.read_s = samples / self.rate_hz
                if self.report.read_s > self._limit_s:
                    raise BadInput(
                        f"{self.name!r} is longer than {self._limit_s / 3600:g} h", param="file"
                    )
                yield block
        if samples == 0:
            raise BadInput(f"no audio could be decoded from {self.name!r}", param="file")

    def _read_part(self, part: Part) -> Iterator[Block]:
        before_s = self.report.read_s
        with open_media(self._path, part, self.name) as (container, stream):
            declared_s = describe(container, stream).duration_s or 0.0
            if part.missing_bytes:
                declared_s *= 1 + part.missing_bytes / part.size
            yield from _Part(self, container, stream).blocks()
        lost_s = declared_s - (self.report.read_s - before_s)
        if lost_s > max(0.5, 0.02 * declared_s):
            self.report.truncated_s += lost_s


class _Part:
    """One open container on its way through decoding, mixing and resampling."""

    def __init__(self, reader: MediaReader, container: InputContainer, stream: AudioStream) -> None:
        self._reader = reader
        self._report = reader.report
        self._container = container
        self._stream = stream
        self._clock_s = (container.start_time or 0) / 1e6
        # A clock that jumps further than the file is long is broken.
        self._longest_gap_s = max(_LONGEST_GAP_S, (container.duration or 0) / 1e6)
        self._pending: list[Planar] = []
        self._pending_s = 0.0
        self._kind: tuple[int, str] | None = None
        self._mixer = Mixer(["FC"])
        self._resamplers: list[Resampler] = []

    def blocks(self) -> Iterator[Block]:
        for frame in self._frames():
            kind = (frame.sample_rate, frame.layout.name)
            if kind != self._kind:
                yield from self._drain(last=True)
                self._start(frame, kind)
            for samples in chain(self._silence(frame), [planar(frame)]):
                self._pending.append(samples)
                self._pending_s += samples.shape[1] / frame.sample_rate
                if self._pending_s >= self._reader.block_s:
                    yield from self._drain()
        yield from self._drain(last=True)

    def _frames(self) -> Iterator[AudioFrame]:
        """Every frame that decodes; what doesn't is counted and stepped over."""
        failures = 0
        while failures < _FAILURES_IN_A_ROW:
            try:
                for packet in self._container.demux(self._stream):
                    try:
                        frames = packet.decode()
                    except (FFmpegError, ValueError):
                        self._report.bad_packets += 1
                        continue
                    failures = 0
                    yield from frames
                return
            except FFmpegError:
                failures += 1
                self._report.bad_packets += 1

    def _start(self, frame: AudioFrame, kind: tuple[int, str]) -> None:
        """Set up for frames of a new rate or layout (concatenated files change them midway)."""
        self._kind = kind
        self._mixer = Mixer([channel.name for channel in frame.layout.channels])
        reader = self._reader
        self._resamplers = [
            Resampler(frame.sample_rate, reader.rate_hz) for _ in range(reader.tracks)
        ]

    def _silence(self, frame: AudioFrame) -> Iterator[Planar]:
        """Silence for a gap in the file's clock before a frame, so that later times stay right.

        In pieces of a block: a call's hour on hold has no packets and shall cost no memory.
        """
        length_s = frame.samples / frame.sample_rate
        if frame.time is None:
            self._clock_s += length_s
            return
        gap_s = frame.time - self._clock_s
        self._clock_s = frame.time + length_s
        if not _GAP_S < gap_s <= self._longest_gap_s:
            return
        self._report.filled_s += gap_s
        left = round(gap_s * frame.sample_rate)
        piece = max(1, round(self._reader.block_s * frame.sample_rate))
        while left > 0:
            count = min(left, piece)
            yield np.zeros((frame.layout.nb_channels, count), np.float32)
            left -= count

    def _drain(self, *, last: bool = False) -> Iterator[Block]:
        """Mix and resample what is pending."""
        if self._kind is None or not (self._pending or last):
            return
        block = np.concatenate(self._pending or [np.zeros((1, 0), np.float32)], axis=1)
        self._pending, self._pending_s = [], 0.0
        if self._reader.tracks == 1:
            tracks = [self._mixer.mix(block)]
        else:
            tracks = [*block, *np.zeros((self._reader.tracks, block.shape[1]), np.float32)]
        done = [
            resampler.push(track, last=last)
            for resampler, track in zip(self._resamplers, tracks, strict=False)
        ]
        if done[0].size:
            yield np.stack(done)
