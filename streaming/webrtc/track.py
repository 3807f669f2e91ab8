"""The track that a caller hears: Opus, a packet every 20 ms, silence between replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, cast

from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame, CodecContext, Packet
from av.audio.codeccontext import AudioCodecContext

from ...components.frames import Samples
from .playout import PIECE, RATE_HZ

PIECE_S = PIECE / RATE_HZ
BIT_RATE = 40_000
CLOCK = Fraction(1, 48_000)
PIECE_TICKS = 960
LATE_S = 0.2
# After so many silent pieces the codec has faded out, and one packet stands for all silence.
FADE_PIECES = 5

_SILENCE = bytes(2 * PIECE)


class Opus:
    """Pieces of 20 ms of mono at 24 kHz, int16, as Opus packets; silence costs nothing."""

    def __init__(self) -> None:
        codec = CodecContext.create("libopus", "w")
        assert isinstance(codec, AudioCodecContext)
        codec.sample_rate, codec.layout, codec.format = RATE_HZ, "mono", "s16"
        codec.bit_rate = BIT_RATE
        codec.time_base = Fraction(1, RATE_HZ)
        codec.options = {"application": "voip"}
        self._codec = codec
        self._count = 0
        self._silent = 0
        self._last = b""

    def encode(self, pcm: Samples | None) -> bytes:
        """The packet of one piece, None for silence."""
        self._silent = 0 if pcm is not None else self._silent + 1
        if self._silent <= FADE_PIECES:
            frame = AudioFrame(format="s16", layout="mono", samples=PIECE)
            frame.sample_rate, frame.pts = RATE_HZ, self._count * PIECE
            frame.planes[0].update(_SILENCE if pcm is None else pcm.tobytes())
            packets = cast(Iterable[bytes], self._codec.encode(frame))  # pyright: ignore[reportUnknownMemberType]
            self._last = b"".join(map(bytes, packets))
            self._count += 1
        return self._last


class SpokenTrack(MediaStreamTrack):
    """Asks `pull` for a piece when it is due; that is what paces a reply.

    Where the loop was held up for long, the time is skipped: nobody wants it in a burst.
    """

    kind = "audio"

    def __init__(self, pull: Callable[[], Samples | None]) -> None:
        super().__init__()
        self._pull = pull
        self._opus = Opus()
        self._clock = asyncio.get_running_loop().time
        self._due_s = 0.0
        self._position = 0

    async def recv(self) -> Packet[Any]:
        """The next packet, when its time has come.

        Raises:
            MediaStreamError: the track was stopped.
        """
        if self.readyState != "live":
            raise MediaStreamError
        now_s = self._clock()
        due_s = now_s if now_s - self._due_s > LATE_S else self._due_s
        await asyncio.sleep(max(0.0, due_s - now_s))
        self._due_s = due_s + PIECE_S
        packet = Packet(self._opus.encode(self._pull()))
        packet.pts, packet.time_base = self._position, CLOCK
        self._position += PIECE_TICKS
        return packet
