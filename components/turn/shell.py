"""What the turn detectors share: frames in, the endpoint's frames out, a clock while it waits."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, ClassVar

from pydantic import Field

from ..base import Component, Context, Options
from ..errors import MotetError
from ..frames import (
    Audio,
    Clear,
    Commit,
    Control,
    Frame,
    SpeechPaused,
    SpeechStarted,
    SpeechStopped,
    TurnSettings,
)
from ..mailbox import Done, Ended, Mail, Mailbox, Tick
from .endpoint import Endpoint
from .rules import EndpointRules

_log = logging.getLogger(__name__)

Verdict = tuple[bool, float]


class TurnOptions(Options):
    """Numbers of an utterance's bounds that the client doesn't set; see `EndpointRules`."""

    onset_ms: float = Field(64.0, ge=32, le=500)
    pause_ms: float = Field(160.0, ge=64, le=1000)
    grace_ms: float = Field(500.0, ge=50, le=10_000)
    max_utterance_s: float = Field(120.0, ge=5, le=3600)

    def rules(self, **more: Any) -> EndpointRules:
        """The rules that these and an engine's own options make."""
        return EndpointRules(
            onset_ms=self.onset_ms,
            pause_ms=self.pause_ms,
            grace_ms=self.grace_ms,
            max_utterance_ms=self.max_utterance_s * 1000,
            **more,
        )


class _Tail:
    """The last `keep_ms` of audio that was sent on."""

    def __init__(self, keep_ms: float) -> None:
        self._keep_ms = keep_ms
        self._audio: deque[Audio] = deque()

    def add(self, audio: Audio) -> None:
        self._audio.append(audio)
        while audio.end_ms - self._audio[0].end_ms >= self._keep_ms:
            self._audio.popleft()

    def clear(self) -> None:
        self._audio.clear()

    def whole(self) -> tuple[Audio, ...]:
        return tuple(self._audio)


class TurnShell(Component):
    """Marked audio in (from a VAD); utterances out: their bounds, and the audio between."""

    accepts = (Audio, Control)
    emits = (SpeechStarted, Audio, SpeechPaused, SpeechStopped)
    concurrency = 256
    judged_ms: ClassVar[float] = 0.0

    @abstractmethod
    def rules(self) -> EndpointRules:
        """The rules that its options make."""

    async def judge(self, tail: tuple[Audio, ...]) -> Verdict:
        """Whether the speaker sounds finished, and the milliseconds it took to tell.

        `tail` holds the last `judged_ms` of the utterance; asked where `rules().judged`.
        """
        raise NotImplementedError

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        del context
        clock = asyncio.get_running_loop().time
        endpoint = Endpoint(self.rules())
        tail = _Tail(self.judged_ms)
        pauses = 0
        async with Mailbox(frames) as mailbox:
            while True:
                mail = await mailbox.get(endpoint.deadline_s())
                for frame in self._answer(endpoint, mail, clock(), pauses):
                    if self.judged_ms and isinstance(frame, Audio):
                        tail.add(frame)
                    elif isinstance(frame, SpeechStarted):
                        tail.clear()
                    yield frame
                    if isinstance(frame, SpeechPaused) and self._asks(endpoint):
                        pauses += 1
                        mailbox.start(self.judge(tail.whole()), tag=pauses)
                if isinstance(mail, Ended):
                    return

    def _asks(self, endpoint: Endpoint) -> bool:
        return endpoint.rules.judged and endpoint.settings.mode == "semantic"

    def _answer(self, endpoint: Endpoint, mail: Mail, now_s: float, pauses: int) -> list[Frame]:
        if isinstance(mail, Audio):
            return endpoint.audio(mail, now_s)
        if isinstance(mail, Tick):
            return endpoint.tick(now_s)
        if isinstance(mail, Commit | Clear | TurnSettings):
            return endpoint.control(mail)
        if isinstance(mail, Done):
            return self._heed(endpoint, mail) if mail.tag == pauses else []
        if isinstance(mail, Ended):
            return endpoint.end()
        return [mail]

    def _heed(self, endpoint: Endpoint, done: Done) -> list[Frame]:
        """Take a verdict; without one the turn ends by the clock, which costs no session."""
        error = done.task.exception()
        if error is not None:
            if not isinstance(error, MotetError):
                raise error
            _log.warning("%s: no verdict on a pause: %s", self.setup.node, error)
            return []
        finished, took_ms = done.task.result()
        paused = endpoint.paused
        if paused is None:
            return []
        return endpoint.verdict(paused, finished=finished, decision_ms=took_ms)
