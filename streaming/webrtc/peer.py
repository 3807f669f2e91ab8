"""The other end of a call as aiortc reaches it: negotiation, tracks, states, the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address
from typing import cast

from aiortc import (
    MediaStreamTrack,
    RTCBundlePolicy,
    RTCConfiguration,
    RTCDataChannel,
    RTCIceServer,
    RTCPeerConnection,
    RTCRtpSender,
    RTCSessionDescription,
)
from aiortc.exceptions import (
    InternalError,
    InvalidAccessError,
    InvalidStateError,
    OperationError,
)
from aiortc.stats import RTCTransportStats

from .ice import IceServer
from .sdp import check_offer, unusable, with_address

logger = logging.getLogger("motet")
CLOSE_LIMIT_S = 5.0

# What aiortc raises where a description isn't what its parser and its negotiation expect.
_UNUSABLE = (
    ValueError, LookupError, AssertionError, AttributeError, TypeError,
    InternalError, InvalidAccessError, InvalidStateError, OperationError,
)  # fmt: skip


class Peer:
    """One connection. `connected` is set when it is, `ended` when it is over.

    `channel` hears of each data channel that the caller opens.
    """

    def __init__(
        self,
        voice: MediaStreamTrack,
        channel: Callable[[RTCDataChannel], None],
        ended: asyncio.Event,
        servers: Sequence[IceServer] = (),
    ) -> None:
        ice = [RTCIceServer(one.url, one.user, one.password) for one in servers]
        # One transport for all; an empty list, since None would ask a server of Google's.
        self._connection = RTCPeerConnection(
            RTCConfiguration(iceServers=ice, bundlePolicy=RTCBundlePolicy.MAX_BUNDLE)
        )
        self._voice = voice
        self._servers = servers
        self.connected = asyncio.Event()
        self._ended = ended
        self.track: MediaStreamTrack | None = None
        self._connection.on("connectionstatechange", self._changed)
        self._connection.on("track", self._heard)
        self._connection.on("datachannel", channel)

    @property
    def has_channel(self) -> bool:
        """Whether the caller offered a data channel."""
        return self._connection.sctp is not None

    @property
    def overrun(self) -> bool:
        """Whether the caller sends more of one message than the window allows it."""
        # aiortc tells callers of the window and trusts them to keep it.
        return getattr(self._connection.sctp, "_advertised_rwnd", 0) < 0

    async def answer(self, offer: str, address: IPv4Address | None = None) -> str:
        """The answer to the caller's offer, complete with candidates; see `with_address`.

        Raises:
            BadInput: the offer can't be used.
        """
        check_offer(offer)
        transceiver = self._connection.addTransceiver(self._voice, direction="sendrecv")
        codecs = RTCRtpSender.getCapabilities("audio").codecs
        transceiver.setCodecPreferences([c for c in codecs if c.mimeType == "audio/opus"])
        try:
            await self._connection.setRemoteDescription(RTCSessionDescription(offer, "offer"))
            await self._connection.setLocalDescription()
        except _UNUSABLE as error:
            raise unusable(error) from error
        if transceiver.currentDirection not in ("sendrecv", "sendonly"):
            raise unusable(ValueError("the caller's audio must be sendrecv or recvonly"))
        sdp = self._connection.localDescription.sdp
        for server in self._servers:
            if f" typ {server.finds}" not in sdp:
                logger.warning("%s gave no address for a WebRTC call", server.url)
        return with_address(sdp, address)

    async def traffic(self) -> tuple[int, int]:
        """Bytes that came in and went out so far."""
        report = await self._connection.getStats()
        every = cast(Iterable[object], report.values())
        found = [one for one in every if isinstance(one, RTCTransportStats)]
        return sum(one.bytesReceived for one in found), sum(one.bytesSent for one in found)

    async def close(self) -> None:
        """Hang up, and wait until all of it is gone. Idempotent."""
        try:
            async with asyncio.timeout(CLOSE_LIMIT_S):
                await self._connection.close()
        except TimeoutError:
            logger.warning("a WebRTC connection took more than %g s to close", CLOSE_LIMIT_S)

    def _changed(self) -> None:
        state = self._connection.connectionState
        if state == "connected":
            self.connected.set()
        elif state in ("failed", "closed"):
            self._ended.set()

    def _heard(self, track: MediaStreamTrack) -> None:
        self.track = track
