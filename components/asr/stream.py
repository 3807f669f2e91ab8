"""One session's listening: decodes begin early, transcripts leave in order, each exactly once."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import cast

from ..errors import BadInput, ComponentFailed, MotetError
from ..frames import (
    Audio,
    Fault,
    Frame,
    SpeechPaused,
    SpeechStarted,
    SpeechStopped,
    Transcript,
    TranscriptionSettings,
)
from ..mailbox import Done, Mailbox
from .memory import Memory
from .requests import Decoded
from .stable import StablePrefix
from .window import Stretch, Window

_log = logging.getLogger(__name__)

_RESUMED = 0.5
_PARTIAL_VOICE_MS = 500.0

Decode = Callable[["Memory", Stretch, str, bool], Awaitable[Decoded]]
Work = asyncio.Task[Decoded]


@dataclass(frozen=True, slots=True)
class StreamRules:
    """When a session's audio is decoded.

    A partial transcript is tried each `partial_ms` of new audio. A window over `window_ms` is cut
    at a pause, its first part decoded for good; so is what came before a pause that the speaker
    went on from, if it is over `settle_ms`: the end of a long speech then is soon decoded.
    """

    partial_ms: float = 600.0
    window_ms: float = 25_000.0
    settle_ms: float = 10_000.0


@dataclass(slots=True, eq=False)
class _Utterance:
    """`settled` are the decodes of windows that were cut off, `tail` is that of the rest (of its
    first `tail_pieces`).

    `voiced_s` holds how much voice each of them had, to judge its text by.
    """

    number: int
    window: Window = field(default_factory=Window)
    settled: list[Work] = field(default_factory=list["Work"])
    tail: Work | None = None
    tail_pieces: int = 0
    voiced_s: dict[Work, float] = field(default_factory=dict["Work", float])
    partial: Work | None = None
    partial_at_ms: float = 0.0
    prefix: StablePrefix = field(default_factory=StablePrefix)
    audio_ms: float = 0.0
    stopped_s: float | None = None

    @property
    def works(self) -> list[Work]:
        """The decodes whose texts make up the transcript."""
        return [*self.settled, *([self.tail] if self.tail else [])]


class Stream:
    """Turns utterances into transcripts. `decode` asks the engine; `idle` tells if it is free."""

    def __init__(
        self,
        mailbox: Mailbox,
        memory: Memory,
        decode: Decode,
        idle: Callable[[], bool],
        *,
        node: str,
        rules: StreamRules | None = None,
    ) -> None:
        self._mailbox = mailbox
        self._memory = memory
        self._decode = decode
        self._idle = idle
        self._node = node
        self._rules = rules or StreamRules()
        self._clock = asyncio.get_running_loop().time
        self._partials = True
        self._open: _Utterance | None = None
        self._ended: deque[_Utterance] = deque()

    def frame(self, frame: Frame) -> list[Frame]:
        """Take what comes from the turn detector or the client; what there is to send."""
        one = self._open
        if isinstance(frame, TranscriptionSettings):
            self._set(frame)
        elif isinstance(frame, SpeechStarted):
            self._open = _Utterance(frame.utterance)
        elif one is not None and isinstance(frame, Audio):
            self._hear(one, frame)
        elif one is not None and isinstance(frame, SpeechPaused):
            self._begin_tail(one)
        elif one is not None and isinstance(frame, SpeechStopped):
            self._stop(one, frame)
            return list(self._finished())
        return []

    def done(self, done: Done) -> list[Frame]:
        """Take the end of a decode; what there is to send."""
        one, work = cast("tuple[_Utterance, str]", done.tag)
        out: list[Frame] = []
        if work == "partial":
            one.partial = None
        if one is self._open and work != "settled" and done.task.exception() is None:
            out += self._grow(one, cast(Decoded, done.task.result()))
        return out + list(self._finished())

    @property
    def waiting(self) -> bool:
        """Whether transcripts of ended utterances are still to come."""
        return bool(self._ended)

    @property
    def behind(self) -> Work | None:
        """A decode to wait for before more audio is taken, None while there are few."""
        pending = [work for work in self._open.settled if not work.done()] if self._open else []
        return pending[0] if len(pending) > 2 else None

    def _set(self, settings: TranscriptionSettings) -> None:
        self._partials = settings.partials
        try:
            self._memory.set(settings)
        except BadInput as error:
            _log.warning("%s: %s", self._node, error)

    def _hear(self, one: _Utterance, audio: Audio) -> None:
        speech = one.window.add(audio)
        one.audio_ms += audio.duration_ms
        if speech >= _RESUMED and one.tail is not None:
            self._resume(one, one.tail)
        if one.window.duration_ms >= self._rules.window_ms:
            stretch = one.window.cut().stretch()
            if stretch is not None:
                one.settled.append(self._begin(one, stretch, "settled"))
        elif self._wants_partial(one):
            self._begin_partial(one)

    def _wants_partial(self, one: _Utterance) -> bool:
        return (
            self._partials
            and one.partial is None
            and one.tail is None
            and one.audio_ms - one.partial_at_ms >= self._rules.partial_ms
            and one.window.voiced_ms >= _PARTIAL_VOICE_MS
            and self._idle()
        )

    def _begin_partial(self, one: _Utterance) -> None:
        stretch = one.window.stretch()
        if stretch is not None:
            one.partial_at_ms = one.audio_ms
            one.partial = self._begin(one, stretch, "partial")

    def _begin_tail(self, one: _Utterance) -> None:
        self._drop_tail(one)
        if one.partial is not None:
            one.partial.cancel()
            one.partial = None
        stretch = one.window.stretch()
        if stretch is not None:
            one.tail = self._begin(one, stretch, "tail")
            one.tail_pieces = one.window.pieces

    def _resume(self, one: _Utterance, tail: Work) -> None:
        """The speaker goes on after a pause: what came before it stands, if it is long enough."""
        if one.voiced_s[tail] * 1000 < self._rules.settle_ms:
            self._drop_tail(one)
            return
        one.settled.append(tail)
        one.tail = None
        one.window.split(one.tail_pieces)

    def _drop_tail(self, one: _Utterance) -> None:
        if one.tail is not None:
            one.tail.cancel()
            one.voiced_s.pop(one.tail, None)
            one.tail = None

    def _begin(self, one: _Utterance, stretch: Stretch, work: str) -> Work:
        settled = [] if work == "settled" else [w for w in one.settled[-2:] if w.done()]
        before = " ".join(w.result().text for w in settled if w.exception() is None)
        decode = self._decode(self._memory, stretch, before, work == "partial")
        task = self._mailbox.start(_awaited(decode), tag=(one, work))
        if work != "partial":
            one.voiced_s[task] = stretch.voiced_s
        return task

    def _stop(self, one: _Utterance, stopped: SpeechStopped) -> None:
        self._open = None
        if one.partial is not None:
            one.partial.cancel()
        if stopped.dropped:
            for work in one.works:
                work.cancel()
            return
        one.stopped_s = self._clock()
        failed = one.tail is not None and one.tail.done() and one.tail.exception() is not None
        if one.tail is None or failed:
            self._begin_tail(one)
        self._ended.append(one)

    def _grow(self, one: _Utterance, decoded: Decoded) -> list[Frame]:
        if not self._partials or decoded.flaws or not decoded.is_spoken():
            return []
        if any(not work.done() or work.exception() for work in one.settled):
            return []
        text = " ".join([*(self._accepted(one, work) for work in one.settled), decoded.text])
        grown = one.prefix.push(text.strip())
        if grown is None:
            return []
        return [
            Transcript(
                grown,
                final=False,
                utterance=one.number,
                language=decoded.language,
                audio_ms=one.audio_ms,
                compute_ms=decoded.compute_ms,
            )
        ]

    def _accepted(self, one: _Utterance, work: Work) -> str:
        decoded = work.result()
        return decoded.text if decoded.is_spoken(voiced_s=one.voiced_s[work]) else ""

    def _finished(self) -> Iterator[Frame]:
        """The transcripts that are complete, and whose turn it is."""
        while self._ended and all(work.done() for work in self._ended[0].works):
            yield self._final(self._ended.popleft())

    def _final(self, one: _Utterance) -> Frame:
        errors = [error for work in one.works if (error := work.exception()) is not None]
        if errors:
            error = errors[0]
            if not isinstance(error, MotetError):
                error = ComponentFailed(f"{type(error).__name__}: {error}", where=self._node)
            return Fault(self._node, error.code, str(error), one.number)
        texts: list[str] = []
        for work in one.works:
            texts.append(self._accepted(one, work))
            self._memory.remember(work.result(), texts[-1])
        found = [work.result() for work in one.works]
        tokens = sum(len(decoded.tokens) for decoded in found)
        likely = sum(decoded.logprob * len(decoded.tokens) for decoded in found)
        return Transcript(
            " ".join(text for text in texts if text),
            final=True,
            utterance=one.number,
            language=found[-1].language if found else None,
            audio_ms=one.audio_ms,
            compute_ms=sum(decoded.compute_ms for decoded in found),
            wait_ms=(self._clock() - (one.stopped_s or 0.0)) * 1000,
            logprob=likely / tokens if tokens else None,
        )


async def _awaited(decode: Awaitable[Decoded]) -> Decoded:
    return await decode
