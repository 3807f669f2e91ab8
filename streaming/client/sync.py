"""The blocking client: one connection, kept; safe for several threads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

import grpc
import numpy as np

from ...components.frames import Audio, Frame, Generate, Prompt, Transcript
from ...components.wire import motet_pb2 as pb
from ...components.wire import motet_pb2_grpc
from .requests import (
    Messages,
    Target,
    audio_of,
    chunk_of,
    our_errors,
    recognize_config,
    synthesize_config,
    texts_of,
)

Answer = TypeVar("Answer")


class Client:
    """Calls the gRPC door. `timeout_s` of each call is its deadline, None without one; `priority`
    says which go first where queues go by it, None for the key's own.

    ```python
    with Client("localhost:50051") as client:
        print(client.recognize(open("hello.wav", "rb").read()))
    ```
    """

    def __init__(
        self,
        address: str,
        *,
        key: str | None = None,
        tls: bool = False,
        authority: Path | None = None,
        timeout_s: float | None = None,
        priority: int | None = None,
    ) -> None:
        self._target = Target(address, key, tls, authority, priority=priority)
        self._timeout_s = timeout_s
        self._messages = Messages(self._target)
        credentials, options = self._target.credentials(), self._target.options()
        if credentials is None:
            self._channel = grpc.insecure_channel(address, options=options)
        else:
            self._channel = grpc.secure_channel(address, credentials, options=options)
        self._stub: Any = cast("Any", motet_pb2_grpc).MotetStub(self._channel)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; calls under way are cancelled."""
        self._channel.close()

    def _one(self, method: str, request: Any) -> Any:
        call = getattr(self._stub, method)
        with our_errors():
            return call(request, metadata=self._target.metadata(), timeout=self._timeout_s)

    def _many(
        self, method: str, request: Any, convert: Callable[[Any], Answer], **metadata: str | None
    ) -> Generator[Answer]:
        start = getattr(self._stub, method)
        call = start(request, metadata=self._target.metadata(**metadata), timeout=self._timeout_s)
        try:
            with our_errors():
                for message in call:
                    yield convert(message)
        finally:
            call.cancel()

    def models(self) -> list[str]:
        """The names of the server's pipelines."""
        return [one.name for one in self._one("ListModels", pb.ListModelsRequest()).models]

    def recognize(self, audio: bytes, **config: Any) -> str:
        """What is said in a WAV file, or in raw audio whose `encoding` and `rate_hz` are given."""
        request = pb.RecognizeRequest(config=recognize_config(**config), audio=audio)
        return self._one("Recognize", request).text

    def recognize_stream(self, chunks: Iterable[bytes], **config: Any) -> Generator[Transcript]:
        """Transcripts of live audio as they come; see `recognize_config`."""

        def requests() -> Iterator[pb.StreamingRecognizeRequest]:
            yield pb.StreamingRecognizeRequest(config=recognize_config(**config))
            for chunk in chunks:
                yield pb.StreamingRecognizeRequest(audio=chunk)

        return self._many("StreamingRecognize", requests(), self._messages.transcript)

    def synthesize(self, text: str, **config: Any) -> Audio:
        """A text as speech; see `synthesize_config`."""
        request = pb.SynthesizeRequest(config=synthesize_config(**config), text=text)
        answer = self._one("Synthesize", request)
        return audio_of(answer.audio, answer.rate_hz)

    def synthesize_stream(self, texts: Iterable[str], **config: Any) -> Generator[Audio]:
        """A text as it is written, as speech while it is made."""

        def requests() -> Iterator[pb.StreamingSynthesizeRequest]:
            yield pb.StreamingSynthesizeRequest(config=synthesize_config(**config))
            for text in texts:
                yield pb.StreamingSynthesizeRequest(text=text)

        return self._many("StreamingSynthesize", requests(), chunk_of)

    def chat(self, prompt: Prompt, *, model: str = "") -> Generator[Frame]:
        """A model's answer: `TextDelta`, `ToolCall`, at last `Completed`."""
        return self._many("Chat", self._messages.chat(prompt, model), self._messages.frame)

    def embed(self, texts: str | Iterable[str], *, model: str = "") -> list[np.ndarray[Any, Any]]:
        """Texts as vectors, in their order."""
        request = pb.EmbedRequest(model=model, texts=texts_of(texts))
        return self._messages.embeddings(self._one("Embed", request))

    def generate(self, request: Generate, *, model: str = "") -> Generator[Frame]:
        """Pictures or a clip: `Progress`, then `Image` or `VideoClip`."""
        message = self._messages.generate(request, model)
        return self._many("GenerateMedia", message, self._messages.frame)

    def run(
        self,
        frames: Iterable[tuple[int, Frame]],
        *,
        model: str | None = None,
        node: str | None = None,
    ) -> Generator[tuple[int, str, Frame]]:
        """A session: (turn, frame) in, (turn, node, frame) out until every turn has ended."""
        requests = (self._messages.message(frame, turn) for turn, frame in frames)
        return self._many(
            "Run", requests, self._messages.output, motet_model=model, motet_node=node
        )
