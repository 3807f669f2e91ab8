"""The blocking client: one connection, kept; safe for several threads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

import grpc
import numpy as np

from ...components.errors import MotetError
from ...components.frames import Audio, Frame, Generate, Prompt, Transcript
from ...components.wire import motet_pb2 as pb
from .base import Connected, Source
from .requests import (
    audio_of,
    chunk_of,
    our_errors,
    recognize_config,
    synthesize_config,
    texts_of,
)

Answer = TypeVar("Answer")
Convert = Callable[[Any], Answer]


class Client(Connected):
    """Calls the gRPC door.

    ```python
    with Client("localhost:50051") as client:
        print(client.recognize(open("hello.wav", "rb").read()))
    ```
    """

    _insecure = staticmethod(grpc.insecure_channel)
    _secure = staticmethod(grpc.secure_channel)

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

    def _one(self, method: str, request: object) -> Any:
        with our_errors():
            return self._begin(method, request)

    def _many(
        self, method: str, request: object, convert: Convert[Answer], **metadata: str | None
    ) -> Generator[Answer]:
        call = self._begin(method, request, **metadata)
        try:
            with our_errors():
                for message in call:
                    yield convert(message)
        finally:
            call.cancel()

    def _both(
        self,
        method: str,
        messages: Iterator[Any],
        convert: Convert[Answer],
        **metadata: str | None,
    ) -> Generator[Answer]:
        source = Source()
        try:
            yield from self._many(method, source.items(messages), convert, **metadata)
        except MotetError:
            if source.error is not None:
                raise source.error from None
            raise

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

        return self._both("StreamingRecognize", requests(), self._messages.transcript)

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

        return self._both("StreamingSynthesize", requests(), chunk_of)

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
        return self._both(
            "Run", requests, self._messages.output, motet_model=model, motet_node=node
        )
