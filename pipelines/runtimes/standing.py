"""A standing run as a runtime sees it pass: when it may move to another replica, and how.

Values in, values out, the clock passed in; `moving.py` is the shell.
"""

from __future__ import annotations

from dataclasses import replace

from ...components.frames import (
    Audio,
    Control,
    Fault,
    Frame,
    SpeechPaused,
    SpeechStarted,
    SpeechStopped,
    Transcript,
    TranscriptionSettings,
    TurnSettings,
)
from ..graph import Node

QUIET_MS = 600.0
"""Longer than all audio under way to a replica: 16 windows of 32 ms."""
IDLE_S = 1.0
VOICED = 0.35


class Standing:
    """Watches what goes into a component's run and what comes out.

    A run may move between turns: when no utterance is open and none awaits its transcript. A node
    that is told of utterances knows by that; any other one is between turns while it has heard
    silence for longer than frames are under way, or nothing at all for a second.
    """

    def __init__(self, node: Node) -> None:
        self._told = any(issubclass(SpeechStopped, kind) for kind in node.accepts)
        self._transcribes = Transcript in node.emits
        self._settings: dict[type[Frame], Frame] = {}
        self._echoes: list[Frame] = []
        self._open = False
        self._untranscribed = 0
        self._quiet_ms = 0.0
        self._marked = False
        self._heard_s = 0.0
        self._before = 0
        self._highest = 0

    def took(self, frame: Frame, now_s: float) -> None:
        """A frame goes into the run."""
        self._heard_s = now_s
        if isinstance(frame, TurnSettings | TranscriptionSettings):
            self._settings[type(frame)] = frame
        elif isinstance(frame, Audio) and frame.speech is not None:
            self._marked = True
            self._hear(frame.duration_ms, frame.speech)
        elif isinstance(frame, SpeechStarted):
            self._open = True
        elif isinstance(frame, SpeechStopped):
            self._open = False
            self._untranscribed += self._transcribes and not frame.dropped

    def gave(self, frame: Frame) -> Frame | None:
        """A frame has come out of the run: as it is to be sent on, None if it came before.

        A run that numbers its utterances begins with 1 wherever it moves to; here they go on.
        """
        if isinstance(frame, Control):
            return self._passed(frame)
        if self._told:
            final = isinstance(frame, Transcript) and frame.final
            if final or (isinstance(frame, Fault) and frame.utterance):
                self._untranscribed = max(0, self._untranscribed - 1)
            return frame
        if isinstance(frame, Audio) and frame.speech is not None and not self._marked:
            self._hear(frame.duration_ms, frame.speech)
        elif isinstance(frame, SpeechStarted | SpeechStopped):
            self._open = isinstance(frame, SpeechStarted)
        if isinstance(frame, SpeechStarted | SpeechPaused | SpeechStopped | Transcript | Fault):
            return self._numbered(frame)
        return frame

    def _numbered(
        self, frame: SpeechStarted | SpeechPaused | SpeechStopped | Transcript | Fault
    ) -> Frame:
        if not frame.utterance:
            return frame
        number = frame.utterance + self._before
        self._highest = max(self._highest, number)
        return replace(frame, utterance=number) if self._before else frame

    def _passed(self, frame: Control) -> Control | None:
        """Drop a setting that was sent anew after a move, where the component passes it on."""
        if frame in self._echoes:
            del self._echoes[: self._echoes.index(frame) + 1]
            return None
        self._echoes.clear()
        return frame

    def _hear(self, length_ms: float, speech: float) -> None:
        self._quiet_ms = 0.0 if speech >= VOICED else self._quiet_ms + length_ms

    def between_turns(self, now_s: float) -> bool:
        """Whether nothing would be cut if the run ended here and went on elsewhere."""
        if self._open or self._untranscribed:
            return False
        quiet = self._quiet_ms >= QUIET_MS or now_s - self._heard_s >= IDLE_S
        return self._told or quiet

    def moved(self) -> list[Frame]:
        """The run goes on at another replica: what that has to be told first."""
        self._before = self._highest
        self._echoes = list(self._settings.values())
        return list(self._echoes)
