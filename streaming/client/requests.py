"""What both clients share: channels, requests, answers, and errors as Motet raises them."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import grpc
import numpy as np

from ...components.errors import (
    DeadlineExceeded,
    MotetError,
    Overloaded,
    error_of,
)
from ...components.frames import Audio, Embedding, Frame, Generate, Prompt, Transcript
from ...components.wire import motet_pb2 as pb
from ...components.wire.codec import Codec

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
_SAFE = ("Recognize", "Synthesize", "Embed", "ListModels")
_RETRIES = {
    "methodConfig": [
        {
            "name": [{"service": "motet.v1.Motet", "method": name} for name in _SAFE],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.1s",
                "maxBackoff": "2s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}
"""Calls that change nothing are tried again while no server answers, or when the replica that ran
them is gone; no stream ever is."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the server is and how to reach it.

    `authority` is a PEM file of who signed the server's certificate; with `tls` and without it,
    the system's authorities count.
    """

    address: str
    key: str | None = None
    tls: bool = False
    authority: Path | None = None
    max_message_bytes: int = MAX_MESSAGE_BYTES
    priority: int | None = None

    def options(self) -> list[tuple[str, Any]]:
        """Channel options: sizes, keepalive, retries of what is safe."""
        return [
            ("grpc.max_receive_message_length", self.max_message_bytes),
            ("grpc.max_send_message_length", self.max_message_bytes),
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.enable_retries", 1),
            ("grpc.service_config", json.dumps(_RETRIES)),
        ]

    def credentials(self) -> grpc.ChannelCredentials | None:
        """TLS credentials, None for a plain connection."""
        if not self.tls and self.authority is None:
            return None
        root = self.authority.read_bytes() if self.authority else None
        return grpc.ssl_channel_credentials(root)

    def metadata(self, **more: str | None) -> tuple[tuple[str, str], ...]:
        """The metadata of a call: the key, and what else is given."""
        found = [(name.replace("_", "-"), value) for name, value in more.items() if value]
        if self.priority is not None:
            found.append(("motet-priority", str(self.priority)))
        if self.key:
            found.append(("authorization", f"Bearer {self.key}"))
        return tuple(found)


@contextmanager
def our_errors() -> Generator[None]:
    """A call's failure as the error that the server raised, or the nearest of ours."""
    try:
        yield
    except grpc.RpcError as error:
        raise error_from(cast("Any", error)) from error


def error_from(error: Any) -> MotetError:
    """The error of ours behind gRPC's."""
    trailing: dict[str, str] = dict(error.trailing_metadata() or ())
    text: str = error.details() or error.code().name
    code = trailing.get("motet-code")
    if code == Overloaded.code:
        retry = trailing.get("retry-after-s")
        return Overloaded(text, retry_after_s=float(retry) if retry else None)
    if code is not None:
        return error_of(code, text)
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded(text)
    return error_of(error.code().name.lower(), text)


def recognize_config(
    *,
    model: str = "",
    encoding: str = "",
    rate_hz: int = 0,
    channels: int = 1,
    language: str | None = None,
    prompt: str | None = None,
    partials: bool = False,
) -> pb.RecognizeConfig:
    """How a recording or a stream is coded, and how to transcribe it."""
    form = pb.AudioFormat(encoding=encoding, rate_hz=rate_hz, channels=channels)
    return pb.RecognizeConfig(
        model=model, format=form, language=language, prompt=prompt, partials=partials
    )


def synthesize_config(
    *, model: str = "", voice: str | None = None, speed: float | None = None, rate_hz: int = 0
) -> pb.SynthesizeConfig:
    """How to speak; `rate_hz` 0 keeps the voice's own rate."""
    return pb.SynthesizeConfig(model=model, voice=voice, speed=speed, rate_hz=rate_hz)


class Messages:
    """Frames to the door's messages and back."""

    def __init__(self, target: Target) -> None:
        self._codec = Codec(max_bytes=target.max_message_bytes)

    def message(self, frame: Frame, turn: int = 0) -> pb.Frame:
        """A frame in its turn."""
        message = pb.Frame(turn=turn)
        self._codec.encode(frame, message)
        return message

    def frame(self, message: pb.Frame) -> Frame:
        """The frame of a message."""
        return self._codec.decode(message)

    def chat(self, prompt: Prompt, model: str) -> pb.ChatRequest:
        """A prompt as a request."""
        return pb.ChatRequest(model=model, prompt=self.message(prompt).prompt)

    def generate(self, request: Generate, model: str) -> pb.GenerateMediaRequest:
        """A request for pictures."""
        return pb.GenerateMediaRequest(model=model, request=self.message(request).generate)

    def transcript(self, message: pb.Transcript) -> Transcript:
        """A transcript of a stream."""
        return cast(Transcript, self.frame(pb.Frame(transcript=message)))

    def output(self, message: pb.Frame) -> tuple[int, str, Frame]:
        """An output of a session: its turn, the node that made it, and itself."""
        return message.turn, message.node, self.frame(message)

    def embeddings(self, answer: pb.EmbedResponse) -> list[np.ndarray[Any, Any]]:
        """The vectors of an answer, in the order of the texts."""
        frames = [self.frame(pb.Frame(embedding=one)) for one in answer.embeddings]
        return [cast(Embedding, frame).vector for frame in frames]


def audio_of(audio: bytes, rate_hz: int, start_ms: float = 0.0) -> Audio:
    """Bytes of speech as a frame."""
    return Audio(np.frombuffer(audio, "<i2"), rate_hz, start_ms)


def chunk_of(chunk: pb.SpeechChunk) -> Audio:
    """A piece of a spoken text as a frame."""
    return audio_of(chunk.audio, chunk.rate_hz, chunk.start_ms)


def texts_of(texts: str | Iterable[str]) -> Sequence[str]:
    """One text or many, as many."""
    return [texts] if isinstance(texts, str) else list(texts)
