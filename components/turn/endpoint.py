"""Where utterances begin, pause and end: a state machine over marked audio.

Time is that of the audio. The wall clock, passed in as `now_s`, counts only when audio ceases to
arrive in the middle of an utterance: what is missing is then taken for silence, after a grace.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ..frames import (
    Audio,
    Clear,
    Commit,
    Frame,
    SpeechPaused,
    SpeechStarted,
    SpeechStopped,
    TurnSettings,
)
from .arrival import Arrival
from .rules import EndpointRules, from_ms


@dataclass(slots=True)
class _Utterance:
    """The open utterance. `quiet_ms` is since when the speaker is silent, None while voiced."""

    number: int
    start_ms: float
    detected: bool
    voice_end_ms: float
    quiet_ms: float | None = None
    paused: bool = False
    finished: bool = False
    decision_ms: float = 0.0


class Endpoint:
    """Turns windows marked with `speech` into utterances, numbered from 1.

    Every call answers with the frames to send on, in order: `SpeechStarted`, the pre-roll, the
    audio as it comes, `SpeechPaused` and `SpeechStopped`. Audio outside of utterances is kept
    for the pre-roll only, so memory is bounded by `prefix_padding_ms`.
    """

    def __init__(
        self, rules: EndpointRules | None = None, settings: TurnSettings | None = None
    ) -> None:
        self.rules = rules or EndpointRules()
        self.settings = settings or TurnSettings()
        self._open: _Utterance | None = None
        self._count = 0
        self._before: deque[Audio] = deque()
        self._onset_ms: float | None = None
        self._voiced_ms = 0.0
        self._heard_ms = 0.0
        self._arrival = Arrival()

    @property
    def paused(self) -> int | None:
        """The utterance that is in a pause, None if none is."""
        return self._open.number if self._open and self._open.paused else None

    def audio(self, window: Audio, now_s: float) -> list[Frame]:
        """Take the next window; without `speech` it counts as silence."""
        self._heard_ms = window.end_ms
        self._arrival.heard(window, now_s)
        if self.settings.mode == "manual":
            return self._manual(window)
        if self._open is None:
            return self._listen(window)
        return self._follow(self._open, window)

    def control(self, frame: Commit | Clear | TurnSettings) -> list[Frame]:
        """Obey the client; what it changes holds from the next sample on."""
        if isinstance(frame, Commit):
            return self._commit()
        if isinstance(frame, Clear):
            return self._clear()
        return self._set(frame)

    def verdict(self, utterance: int, *, finished: bool, decision_ms: float = 0.0) -> list[Frame]:
        """What a judge thinks of the pause that `utterance` is in; stale ones change nothing."""
        one = self._open
        if one is None or one.number != utterance or not one.paused:
            return []
        one.finished, one.decision_ms = finished, decision_ms
        return self._end_if_silent(one, self._heard_ms)

    def deadline_s(self) -> float | None:
        """When `tick` has to be called if no more audio comes; None while nothing is open."""
        one = self._open
        if one is None or self.settings.mode == "manual":
            return None
        silent_ms = self._heard_ms - one.voice_end_ms
        wait_ms = self._limit_ms(one) if one.paused else self.rules.pause_ms
        return self._arrival.last_s + (max(wait_ms - silent_ms, 0.0) + self._grace_ms) / 1000

    def tick(self, now_s: float) -> list[Frame]:
        """Count audio that should have come by now, but didn't, as silence."""
        deadline_s = self.deadline_s()
        if self._open is None or deadline_s is None or now_s < deadline_s:
            return []
        one = self._open
        # A microsecond more, so that a tick at the very deadline isn't lost to rounding.
        missing_ms = (now_s - self._arrival.last_s) * 1000 - self._grace_ms + 0.001
        one.quiet_ms = one.voice_end_ms if one.quiet_ms is None else one.quiet_ms
        return [
            *self._pause_if_silent(one, self._heard_ms + missing_ms),
            *self._end_if_silent(one, self._heard_ms + missing_ms),
        ]

    def end(self) -> list[Frame]:
        """The stream is over: a detected utterance ends here, an uncommitted one is dropped."""
        if self._open is None:
            return []
        return self._stop(self._open, dropped=not self._open.detected)

    def _listen(self, window: Audio) -> list[Frame]:
        self._before.append(window)
        speech = window.speech or 0.0
        if speech >= self.settings.threshold:
            self._onset_ms = window.start_ms if self._onset_ms is None else self._onset_ms
            self._voiced_ms += window.duration_ms
        elif speech < self._release:
            self._onset_ms, self._voiced_ms = None, 0.0
        if self._onset_ms is not None and self._voiced_ms >= self.rules.onset_ms:
            start_ms = self._onset_ms - self.settings.prefix_padding_ms
            return self._start(start_ms, detected=True)
        self._forget()
        return []

    def _forget(self) -> None:
        """Drop audio that no pre-roll can reach any more."""
        onset_ms = self._heard_ms if self._onset_ms is None else self._onset_ms
        reach_ms = onset_ms - self.settings.prefix_padding_ms - self.rules.onset_ms
        while self._before and self._before[0].end_ms <= reach_ms:
            self._before.popleft()

    def _start(self, start_ms: float, *, detected: bool) -> list[Frame]:
        """Open an utterance with the kept audio from `start_ms` on (all of it, if that is less)."""
        kept = [from_ms(one, start_ms) for one in self._before if one.end_ms > start_ms]
        start_ms = kept[0].start_ms if kept else self._heard_ms
        self._before.clear()
        self._onset_ms, self._voiced_ms = None, 0.0
        self._count += 1
        self._open = _Utterance(self._count, start_ms, detected, voice_end_ms=self._heard_ms)
        return [SpeechStarted(self._count, start_ms, detected), *kept]

    def _follow(self, one: _Utterance, window: Audio) -> list[Frame]:
        speech = window.speech or 0.0
        voiced = speech >= (self._release if one.quiet_ms is None else self.settings.threshold)
        if voiced:
            one.voice_end_ms, one.quiet_ms = window.end_ms, None
            one.paused = one.finished = False
        elif one.quiet_ms is None:
            one.quiet_ms = one.voice_end_ms
        out: list[Frame] = [window, *self._pause_if_silent(one, window.end_ms)]
        ended = self._end_if_silent(one, window.end_ms)
        if (
            not ended
            and one.detected
            and window.end_ms - one.start_ms >= self.rules.max_utterance_ms
        ):
            ended = self._stop(one)
            if one.quiet_ms is None:
                ended += self._start(self._heard_ms, detected=True)
        return out + ended

    def _pause_if_silent(self, one: _Utterance, until_ms: float) -> list[Frame]:
        if one.paused or one.quiet_ms is None or until_ms - one.quiet_ms < self.rules.pause_ms:
            return []
        one.paused = True
        return [SpeechPaused(one.number, one.quiet_ms)]

    def _end_if_silent(self, one: _Utterance, until_ms: float) -> list[Frame]:
        if one.quiet_ms is None or until_ms - one.quiet_ms < self._limit_ms(one):
            return []
        return self._stop(one)

    def _limit_ms(self, one: _Utterance) -> float:
        return self.rules.silence_ms(self.settings, finished=one.finished)

    def _stop(self, one: _Utterance, *, dropped: bool = False) -> list[Frame]:
        self._open = None
        return [SpeechStopped(one.number, self._heard_ms, one.detected, dropped, one.decision_ms)]

    def _manual(self, window: Audio) -> list[Frame]:
        if self._open is not None:
            return [window]
        self._before.append(window)
        return self._start(self._before[0].start_ms, detected=False)

    def _commit(self) -> list[Frame]:
        """End the open utterance, or make one of what is kept; nothing where nothing is."""
        if self._open is not None:
            return self._stop(self._open)
        if not self._before:
            return []
        opened = self._start(self._before[0].start_ms, detected=False)
        return opened + self._stop(self._open) if self._open else opened

    def _clear(self) -> list[Frame]:
        self._before.clear()
        self._onset_ms, self._voiced_ms = None, 0.0
        return self._stop(self._open, dropped=True) if self._open else []

    def _set(self, settings: TurnSettings) -> list[Frame]:
        """New settings; audio that waits for a commit is dropped when a detector takes over."""
        self.settings = settings
        if self._open and not self._open.detected and settings.mode != "manual":
            return self._stop(self._open, dropped=True)
        return []

    @property
    def _grace_ms(self) -> float:
        return self._arrival.grace_ms(self.rules.grace_ms)

    @property
    def _release(self) -> float:
        return max(self.settings.threshold - self.rules.release, 0.01)
