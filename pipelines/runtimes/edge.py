"""The edge between two processes as a pure protocol: credit, order, end, and signs of life.

Values in, values out, the clock passed in; `port.py` and `link.py` are the shells. A receiver
grants credit for frames, so what is under way never exceeds its window, whatever the transport
buffers. Every frame has a number; every direction ends with an explicit end, so that a peer that
stops, dies or loses frames is never taken for one that has finished.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...components.errors import ComponentFailed, MotetError

MISSED_BEATS = 3
DEFAULT_WINDOW = 16
"""Frames under way per direction of a call: 320 ms of speech in chunks of 20 ms."""


class ProtocolFault(MotetError):
    """The peer broke the protocol; the connection can't be trusted any more."""

    code = "protocol_fault"


class Outgoing:
    """The sending end of one direction: it may send while it has credit."""

    def __init__(self, window: int) -> None:
        self.credit = window
        self.sequence = 0
        self.finished = False

    @property
    def may_send(self) -> bool:
        """Whether the peer has room for a frame."""
        return self.credit > 0

    def next(self) -> int:
        """The number of the frame that is sent now; takes one credit.

        Raises:
            ProtocolFault: there is no credit, or the direction was finished.
        """
        if self.finished or self.credit <= 0:
            state = "was finished" if self.finished else "has no credit"
            raise ProtocolFault(f"a frame was to be sent on a direction that {state}")
        self.credit -= 1
        self.sequence += 1
        return self.sequence

    def grant(self, frames: int) -> None:
        """The peer has room for so many more."""
        self.credit += frames

    def finish(self) -> int:
        """No more frames come; returns how many there were, which the end says."""
        self.finished = True
        return self.sequence


class Incoming:
    """The receiving end of one direction: it holds at most `window` frames not yet taken."""

    def __init__(self, window: int = DEFAULT_WINDOW) -> None:
        self.window = window
        self.received = 0
        self.finished = False
        self._held = 0
        self._owed = 0

    def accept(self, sequence: int) -> None:
        """A frame with this number has come.

        Raises:
            ProtocolFault: it isn't the next one, comes after the end, or exceeds the credit.
        """
        if self.finished:
            raise ProtocolFault(f"frame {sequence} came after the end")
        if sequence != self.received + 1:
            raise ProtocolFault(f"frame {sequence} came after frame {self.received}")
        if self._held + self._owed >= self.window:
            raise ProtocolFault(f"frame {sequence} came without credit, of {self.window}")
        self.received = sequence
        self._held += 1

    def taken(self) -> int:
        """One frame was taken; returns the credit to grant now, 0 until half a window is due."""
        self._held -= 1
        self._owed += 1
        if self._owed * 2 < self.window or self.finished:
            return 0
        grant, self._owed = self._owed, 0
        return grant

    def finish(self, count: int) -> None:
        """The peer says that it has sent all of `count` frames.

        Raises:
            ProtocolFault: that isn't how many came.
        """
        if count != self.received:
            raise ProtocolFault(f"the end counts {count} frames, {self.received} came")
        self.finished = True


@dataclass(slots=True)
class Liveness:
    """When to say that one is alive, and when to give the peer up. Times on one monotonic clock.

    A peer is given up after `patience_s` without any packet. Time in which this process itself
    stood still (a suspended laptop, a stopped process) doesn't count against the peer.
    """

    interval_s: float = 1.0
    patience_s: float = 5.0
    heard_s: float = 0.0
    said_s: float = 0.0
    ticked_s: float = 0.0

    def start(self, now_s: float) -> None:
        """The connection is up."""
        self.heard_s = self.said_s = self.ticked_s = now_s

    def heard(self, now_s: float) -> None:
        """A packet came."""
        self.heard_s = now_s

    def said(self, now_s: float) -> None:
        """A packet went out."""
        self.said_s = now_s

    def silent(self, now_s: float) -> bool:
        """Whether several heartbeats have failed to come."""
        return now_s - self.heard_s > MISSED_BEATS * self.interval_s

    def tick(self, now_s: float) -> bool:
        """Called every `interval_s`; True when a heartbeat is to be sent.

        Raises:
            ComponentFailed: the peer has been silent for too long.
        """
        stood_still_s = now_s - self.ticked_s - self.interval_s
        if stood_still_s > self.interval_s:
            self.heard_s += stood_still_s
        self.ticked_s = now_s
        if now_s - self.heard_s > self.patience_s:
            raise ComponentFailed(f"the peer has said nothing for {now_s - self.heard_s:.1f} s")
        return now_s - self.said_s >= self.interval_s * 0.9
