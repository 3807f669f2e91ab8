"""Transcripts in OpenAI's shapes: json, verbose_json, diarized_json, text, and streamed events."""

from __future__ import annotations

import json
import math
from typing import Any

from ...components.frames import Segment
from .request import AudioRequest
from .subtitles import srt, vtt

Json = dict[str, Any]


def render(transcript: Json, request: AudioRequest) -> tuple[str, str]:
    """Body and media type of a whole answer."""
    segments = transcript["segments"]
    match request.response_format:
        case "text":
            return transcript["text"] + "\n", "text/plain; charset=utf-8"
        case "srt":
            return srt(segments), "application/x-subrip; charset=utf-8"
        case "vtt":
            return vtt(segments), "text/vtt; charset=utf-8"
        case "verbose_json":
            shape = verbose(transcript, request)
        case "diarized_json":
            shape = diarized(transcript)
        case "json":
            shape = plain(transcript, logprobs="logprobs" in request.include)
    return json.dumps(shape, ensure_ascii=False), "application/json"


def plain(transcript: Json, *, logprobs: bool = False) -> Json:
    """`json`. `logprobs` has one entry a word, not a token: the mean of its tokens."""
    shape: Json = {
        "text": transcript["text"],
        "languages": languages(transcript),
        "usage": usage(transcript),
    }
    return shape | ({"logprobs": word_logprobs(transcript["segments"])} if logprobs else {})


def languages(transcript: Json) -> list[Json]:
    """The languages that were heard, the main one first."""
    codes = [transcript["language"], *(one["language"] for one in transcript["segments"])]
    return [{"code": code} for code in dict.fromkeys(codes) if code]


def usage(transcript: Json) -> Json:
    """What the request cost: seconds of audio."""
    return {"type": "duration", "seconds": math.ceil(transcript["duration"])}


def word_logprobs(segments: list[Json]) -> list[Json]:
    """The log probability of each word."""
    return [
        {
            "token": word["word"],
            "bytes": list(word["word"].encode()),
            "logprob": math.log(max(word["probability"], 1e-9)),
        }
        for segment in segments
        for word in segment["words"]
    ]


def verbose(transcript: Json, request: AudioRequest) -> Json:
    """`verbose_json`: segments unless only words are asked for, words where they are."""
    shape: Json = {
        "task": transcript["task"],
        "language": transcript["language"] or "",
        "duration": transcript["duration"],
        "text": transcript["text"],
        "usage": usage(transcript),
    }
    asked = request.timestamp_granularities or ["segment"]
    if "segment" in asked:
        shape["segments"] = [_segment(segment) for segment in transcript["segments"]]
    if "word" in asked:
        shape["words"] = [
            {"word": word["word"].strip(), "start": word["start"], "end": word["end"]}
            for segment in transcript["segments"]
            for word in segment["words"]
        ]
    return shape


def _segment(segment: Json) -> Json:
    names = ("id", "start", "end", "text", "tokens", "temperature", "avg_logprob")
    shape = {name: segment[name] for name in names}
    shape |= {
        "seek": int(segment["start"] * 100),
        "compression_ratio": segment["compression_ratio"],
        "no_speech_prob": segment["no_speech_prob"],
    }
    return shape | ({"speaker": segment["speaker"]} if segment["speaker"] else {})


def diarized(transcript: Json) -> Json:
    """`diarized_json`: text by speaker."""
    return {
        "task": "transcribe",
        "duration": transcript["duration"],
        "text": transcript["text"],
        "segments": [speaker_segment(segment) for segment in transcript["segments"]],
        "usage": usage(transcript),
    }


def speaker_segment(segment: Json) -> Json:
    """A segment with its speaker, in a result and as an event alike."""
    return {
        "type": "transcript.text.segment",
        "id": f"seg_{segment['id']:03}",
        "start": segment["start"],
        "end": segment["end"],
        "speaker": segment["speaker"] or "A",
        "text": segment["text"],
    }


def delta(segment: Segment, *, first: bool, request: AudioRequest) -> Json:
    """The event for a segment whose text has just come; deltas join to the final text."""
    text = segment.text.strip()
    event: Json = {
        "type": "transcript.text.delta",
        "delta": text if first else f" {text}",
    }
    if "logprobs" in request.include:
        shape = {"words": [{"word": w.text, "probability": w.probability} for w in segment.words]}
        event["logprobs"] = word_logprobs([shape])
    if request.response_format == "diarized_json":
        event["segment_id"] = f"seg_{segment.index:03}"
    return event


def done(transcript: Json, request: AudioRequest) -> list[Json]:
    """The events that end a stream: speakers' segments where asked for, then the whole text."""
    events: list[Json] = []
    if request.response_format == "diarized_json":
        events += [speaker_segment(segment) for segment in transcript["segments"]]
    final: Json = {
        "type": "transcript.text.done",
        "text": transcript["text"],
        "languages": languages(transcript),
    }
    if "logprobs" in request.include:
        final["logprobs"] = word_logprobs(transcript["segments"])
    return [*events, final]


def sse(event: Json) -> str:
    """A server-sent event, named by its type."""
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
