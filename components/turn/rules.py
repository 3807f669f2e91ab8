"""The numbers by which an utterance begins and ends, apart from what a client may set."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..frames import Audio, TurnSettings

EAGERNESS_MS = {"low": 8000.0, "medium": 4000.0, "high": 2000.0, "auto": 4000.0}


@dataclass(frozen=True, slots=True)
class EndpointRules:
    """All in milliseconds of audio, but `grace_ms`, which is wall time, and `release`.

    An utterance begins after `onset_ms` of voice, and pauses after `pause_ms` of silence; voice is
    over when the VAD's probability falls `release` below the client's threshold. In mode
    "semantic", one that sounds finished ends after `finished_ms` of silence, another after what
    the client's eagerness allows: `EAGERNESS_MS` where somebody judges (`judged`), else `low_ms`,
    `medium_ms` ("auto" too) or `high_ms`.
    A detected utterance over `max_utterance_ms` is ended and the next begins with the next
    sample. Audio that hasn't arrived for `grace_ms` counts as silence (longer, where it comes in
    bursts).
    """

    onset_ms: float = 64.0
    release: float = 0.15
    pause_ms: float = 160.0
    finished_ms: float = 200.0
    judged: bool = False
    low_ms: float = 1600.0
    medium_ms: float = 800.0
    high_ms: float = 500.0
    max_utterance_ms: float = 120_000.0
    grace_ms: float = 500.0

    def silence_ms(self, settings: TurnSettings, *, finished: bool = False) -> float:
        """How much silence ends an utterance now."""
        if settings.mode != "semantic":
            return float(settings.silence_duration_ms)
        if finished:
            return self.finished_ms
        if self.judged:
            return EAGERNESS_MS[settings.eagerness]
        waits = {"low": self.low_ms, "high": self.high_ms}
        return waits.get(settings.eagerness, self.medium_ms)


def from_ms(audio: Audio, start_ms: float) -> Audio:
    """The part of `audio` at and after `start_ms`."""
    skipped = round((start_ms - audio.start_ms) * audio.rate_hz / 1000)
    if skipped <= 0:
        return audio
    begins_ms = audio.start_ms + skipped * 1000 / audio.rate_hz
    return replace(audio, pcm=audio.pcm[skipped:], start_ms=begins_ms)
