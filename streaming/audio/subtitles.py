"""Transcripts as subtitles: SRT and WebVTT, cues that never overlap, go back, or vanish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...components.asr.file_stitch import cues, join
from ...components.transcription import segment_from

_SHORTEST_S = 0.3


@dataclass(frozen=True, slots=True)
class Cue:
    """Text shown from `start_s` to `end_s`."""

    start_s: float
    end_s: float
    text: str
    speaker: str | None = None


def cues_of(segments: Sequence[dict[str, Any]]) -> list[Cue]:
    """The cues of a transcript's segments: two lines at most, each long enough to be seen."""
    raw: list[Cue] = []
    for shape in segments:
        segment = segment_from(shape)
        for group in cues(segment.words):
            raw.append(Cue(group[0].start_s, group[-1].end_s, join(group), segment.speaker))
        if not segment.words and segment.text.strip():
            raw.append(Cue(segment.start_s, segment.end_s, segment.text.strip(), segment.speaker))
    raw.sort(key=lambda cue: cue.start_s)
    return _apart(raw)


def _apart(raw: Sequence[Cue]) -> list[Cue]:
    apart: list[Cue] = []
    for index, cue in enumerate(raw):
        start_s = max(cue.start_s, apart[-1].end_s if apart else 0.0)
        end_s = max(cue.end_s, start_s + _SHORTEST_S)
        if index + 1 < len(raw):
            following_s = max(raw[index + 1].start_s, start_s + 0.05)
            end_s = min(end_s, following_s)
        apart.append(Cue(round(start_s, 3), round(end_s, 3), cue.text, cue.speaker))
    return apart


def clock(seconds: float, mark: str) -> str:
    """hh:mm:ss and milliseconds behind `mark`."""
    whole_ms = round(seconds * 1000)
    minutes, ms = divmod(whole_ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{ms // 1000:02}{mark}{ms % 1000:03}"


def srt(segments: Sequence[dict[str, Any]]) -> str:
    """SubRip; speakers stand before their text."""
    blocks = [
        f"{number}\n{clock(cue.start_s, ',')} --> {clock(cue.end_s, ',')}\n{_named(cue)}\n"
        for number, cue in enumerate(cues_of(segments), 1)
    ]
    return "\n".join(blocks)


def vtt(segments: Sequence[dict[str, Any]]) -> str:
    """WebVTT; speakers as voice spans."""
    blocks = [
        f"{clock(cue.start_s, '.')} --> {clock(cue.end_s, '.')}\n{_voiced(cue)}\n"
        for cue in cues_of(segments)
    ]
    return "\n".join(["WEBVTT\n", *blocks])


def _named(cue: Cue) -> str:
    text = cue.text.replace("-->", "→")
    return f"{cue.speaker}: {text}" if cue.speaker else text


def _voiced(cue: Cue) -> str:
    text = cue.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    speaker = (cue.speaker or "").replace("&", "&amp;").replace("<", "").replace(">", "")
    return f"<v {speaker}>{text}" if speaker else text
