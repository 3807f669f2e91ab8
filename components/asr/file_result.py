"""From decoded chunks to the transcript of a file, and chunks to and from a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..frames import Data, Segment
from ..media_read import ReadReport
from ..transcription import joined_text, word_from, word_json
from .file_chunks import Chunk
from .file_decode import ChunkText
from .file_kept import KeptSegments
from .file_language import LanguageVote
from .file_stitch import join, place_words, sentences

_LISTED = 200


class Transcript:
    """Gathers a file's segments in order of time, chunk after chunk."""

    def __init__(self, tracks: int) -> None:
        self._tracks = tracks
        self._floors_s = [0.0] * tracks
        self._kept = KeptSegments()
        self._marks: Counter[str] = Counter()
        self._marked: list[dict[str, Any]] = []
        self._chunks = 0
        self._retried = 0

    def add(self, chunk: Chunk, text: ChunkText, limit_s: float) -> list[Segment]:
        """The segments of the next chunk; times stay within it and within `limit_s`."""
        self._chunks += 1
        self._retried += text.tries > 1
        if text.marks:
            self._marks.update(text.marks)
            if len(self._marked) < _LISTED:
                span = {"start": chunk.start_s, "end": chunk.start_s + chunk.duration_s}
                self._marked.append(span | {"marks": list(text.marks)})
        end_s = min(chunk.start_s + chunk.duration_s, limit_s)
        words = place_words(text.words, chunk.start_s, end_s, self._floors_s[chunk.track])
        if words:
            self._floors_s[chunk.track] = words[-1].end_s
        speaker = f"channel {chunk.track + 1}" if self._tracks > 1 else None
        segments: list[Segment] = []
        for number, group in enumerate(sentences(words)):
            segment = Segment(
                text=join(group),
                start_s=group[0].start_s,
                end_s=group[-1].end_s,
                index=len(self._kept) + len(segments),
                speaker=speaker,
                language=text.language,
                logprob=round(text.logprob, 4),
                compression_ratio=text.compression_ratio,
                no_speech=round(text.no_speech, 4),
                temperature=text.temperature,
                tokens=text.tokens if number == 0 else (),
                words=tuple(replace(word, speaker=speaker) for word in group),
                marks=text.marks,
            )
            segments.append(segment)
        self._kept.add(segments)
        return segments

    def data(self, vote: LanguageVote, report: ReadReport, task: str) -> Data:
        """The whole result, JSON-like."""
        shapes = self._kept.shapes()
        return Data(
            {
                "kind": "transcript",
                "text": joined_text(shape["text"] for shape in shapes),
                "language": vote.language,
                "languages": vote.shares,
                "duration": round(report.read_s, 3),
                "task": task,
                "segments": shapes,
                "speakers": sorted({one["speaker"] for one in shapes if one["speaker"]}),
                "media": {
                    "bad_packets": report.bad_packets,
                    "filled_s": round(report.filled_s, 3),
                    "truncated_s": round(report.truncated_s, 3),
                },
                "checks": {
                    "chunks": self._chunks,
                    "retried": self._retried,
                    "marks": dict(self._marks),
                    "marked": self._marked,
                },
            }
        )


def chunk_data(chunk: Chunk, text: ChunkText) -> Data:
    """A chunk's result for a store, to be given back as a "known_chunk"."""
    return Data(
        {
            "kind": "chunk",
            "key": chunk.key,
            "text": text.text,
            "language": text.language,
            "words": [word_json(word) for word in text.words],
            "tokens": list(text.tokens),
            "logprob": text.logprob,
            "no_speech": text.no_speech,
            "compression_ratio": text.compression_ratio,
            "temperature": text.temperature,
            "marks": list(text.marks),
            "tries": text.tries,
        }
    )


def known_chunk(value: Mapping[str, Any]) -> tuple[str, ChunkText]:
    """Key and result of a chunk that `chunk_data` wrote."""
    return value["key"], ChunkText(
        text=value["text"],
        language=value["language"],
        words=tuple(word_from(word) for word in value["words"]),
        tokens=tuple(value["tokens"]),
        logprob=value["logprob"],
        no_speech=value["no_speech"],
        compression_ratio=value["compression_ratio"],
        temperature=value["temperature"],
        marks=tuple(value["marks"]),
        tries=value["tries"],
    )
