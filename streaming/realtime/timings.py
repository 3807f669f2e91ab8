"""Where the milliseconds of a turn went, from the end of speech to the start of the reply."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ...components.frames import SpeechPaused, SpeechStarted, SpeechStopped
from .response import Clock
from .settings import Settings

_MAX_ARRIVALS = 512


@dataclass(slots=True)
class _Heard:
    start_ms: float
    voice_end_ms: float | None = None
    voice_end_s: float = 0.0
    paused_s: float | None = None
    stopped_s: float = 0.0
    transcribed_s: float | None = None


class Timings:
    """Remembers when each part of the input arrived, and when each step of a turn was over."""

    def __init__(self) -> None:
        self._arrivals: deque[tuple[float, float]] = deque(maxlen=_MAX_ARRIVALS)
        self._last: _Heard | None = None

    def arrived(self, until_ms: float, now_s: float) -> None:
        """The standing stream is here up to `until_ms`."""
        self._arrivals.append((until_ms, now_s))

    def started(self, frame: SpeechStarted) -> None:
        """A new utterance."""
        self._last = _Heard(frame.start_ms)

    def paused(self, frame: SpeechPaused, now_s: float) -> None:
        """The speaker fell silent at `end_ms`; the last such pause is the one that counts."""
        if self._last is not None:
            self._last.voice_end_ms, self._last.paused_s = frame.end_ms, now_s

    def stopped(self, frame: SpeechStopped, settings: Settings, now_s: float) -> None:
        """The turn was found to be over; without a pause told, the silence waited for counts."""
        one = self._last
        if one is None:
            return
        if one.voice_end_ms is None:
            found = settings.detection if frame.detected else None
            one.voice_end_ms = frame.end_ms - (found.silence_duration_ms if found else 0)
        one.voice_end_s = self._arrival_s(one.voice_end_ms, now_s)
        one.stopped_s = now_s

    def transcribed(self, now_s: float) -> None:
        """The final transcript is here."""
        if self._last is not None and self._last.transcribed_s is None:
            self._last.transcribed_s = now_s

    def stages_ms(self, clock: Clock) -> dict[str, float] | None:
        """The stages of the reply to the last utterance, at its first audio; they add up to
        `total_ms`. None for a reply that answers no speech."""
        one = self._last
        if one is None or one.transcribed_s is None or one.voice_end_ms is None:
            return None
        audio_s = one.transcribed_s if clock.first_audio_s is None else clock.first_audio_s
        text_s = audio_s if clock.first_text_s is None else min(clock.first_text_s, audio_s)
        paused_s = one.stopped_s if one.paused_s is None else min(one.paused_s, one.stopped_s)
        self._last = None
        return {
            "speech_ms": _round(one.voice_end_ms - one.start_ms),
            "vad_ms": _round((paused_s - one.voice_end_s) * 1000),
            "end_of_turn_ms": _round((one.stopped_s - paused_s) * 1000),
            "asr_ms": _round((one.transcribed_s - one.stopped_s) * 1000),
            "llm_first_token_ms": _round((text_s - one.transcribed_s) * 1000),
            "tts_first_audio_ms": _round((audio_s - text_s) * 1000),
            "total_ms": _round((audio_s - one.voice_end_s) * 1000),
        }

    def _arrival_s(self, position_ms: float, now_s: float) -> float:
        """When the sample at `position_ms` came in."""
        found = now_s
        for until_ms, at_s in reversed(self._arrivals):
            if until_ms < position_ms:
                break
            found = at_s
        return min(found, now_s)


def _round(value_ms: float) -> float:
    return round(max(0.0, value_ms), 1)
