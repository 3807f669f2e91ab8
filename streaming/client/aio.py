"""The asyncio client: one connection, kept; every call can be cancelled and given a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing
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


class AsyncClient(Connected):
    """Calls the gRPC door.

    ```python
    async with AsyncClient("localhost:50051") as client:
        audio = await client.synthesize("Hello.")
    ```
    """

    _insecure = staticmethod(grpc.aio.insecure_channel)
    _secure = staticmethod(grpc.aio.secure_channel)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; calls under way are cancelled."""
        await self._channel.close()

    async def _one(self, method: str, request: object) -> Any:
        with our_errors():
            return await self._begin(method, request)

    async def _many(
        self, method: str, request: object, convert: Convert[Answer], **metadata: str | None
    ) -> AsyncGenerator[Answer]:
        call = self._begin(method, request, **metadata)
        try:
            with our_errors():
                async for message in call:
                    yield convert(message)
        finally:
            call.cancel()

    async def _both(
        self,
        method: str,
        messages: AsyncIterator[Any],
        convert: Convert[Answer],
        **metadata: str | None,
    ) -> AsyncGenerator[Answer]:
        source = Source()
        answers = self._many(method, source.items_async(messages), convert, **metadata)
        try:
            async with aclosing(answers):
                async for answer in answers:
                    yield answer
        except (asyncio.CancelledError, MotetError):
            if source.error is not None:
                raise source.error from None
            raise

    async def models(self) -> list[str]:
        """The names of the server's pipelines."""
        answer = await self._one("ListModels", pb.ListModelsRequest())
        return [one.name for one in answer.models]

    async def recognize(self, audio: bytes, **config: Any) -> str:
        """What is said in a WAV file, or in raw audio whose `encoding` and `rate_hz` are given."""
        request = pb.RecognizeRequest(config=recognize_config(**config), audio=audio)
        return (await self._one("Recognize", request)).text

    def recognize_stream(
        self, chunks: AsyncIterator[bytes], **config: Any
    ) -> AsyncGenerator[Transcript]:
        """Transcripts of live audio as they come; see `recognize_config`."""

        async def requests() -> AsyncIterator[pb.StreamingRecognizeRequest]:
            yield pb.StreamingRecognizeRequest(config=recognize_config(**config))
            async for chunk in chunks:
                yield pb.StreamingRecognizeRequest(audio=chunk)

        return self._both("StreamingRecognize", requests(), self._messages.transcript)

    async def synthesize(self, text: str, **config: Any) -> Audio:
        """A text as speech; see `synthesize_config`."""
        request = pb.SynthesizeRequest(config=synthesize_config(**config), text=text)
        answer = await self._one("Synthesize", request)
        return audio_of(answer.audio, answer.rate_hz)

    def synthesize_stream(self, texts: AsyncIterator[str], **config: Any) -> AsyncGenerator[Audio]:
        """A text as it is written, as speech while it is made."""

        async def requests() -> AsyncIterator[pb.StreamingSynthesizeRequest]:
            yield pb.StreamingSynthesizeRequest(config=synthesize_config(**config))
            async for text in texts:
                yield pb.StreamingSynthesizeRequest(text=text)

        return self._both("StreamingSynthesize", requests(), chunk_of)

    def chat(self, prompt: Prompt, *, model: str = "") -> AsyncGenerator[Frame]:
        """A model's answer: `TextDelta`, `ToolCall`, at last `Completed`."""
        return self._many("Chat", self._messages.chat(prompt, model), self._messages.frame)

    async def embed(
        self, texts: str | Iterable[str], *, model: str = ""
    ) -> list[np.ndarray[Any, Any]]:
        """Texts as vectors, in their order."""
        request = pb.EmbedRequest(model=model, texts=texts_of(texts))
        return self._messages.embeddings(await self._one("Embed", request))

    def generate(self, request: Generate, *, model: str = "") -> AsyncGenerator[Frame]:
        """Pictures or a clip: `Progress`, then `Image` or `VideoClip`."""
        message = self._messages.generate(request, model)
        return self._many("GenerateMedia", message, self._messages.frame)

    def run(
        self,
        frames: AsyncIterator[tuple[int, Frame]],
        *,
        model: str | None = None,
        node: str | None = None,
    ) -> AsyncGenerator[tuple[int, str, Frame]]:
        """A session: (turn, frame) in, (turn, node, frame) out until every turn has ended."""

        async def requests() -> AsyncIterator[pb.Frame]:
            async for turn, frame in frames:
                yield self._messages.message(frame, turn)

        return self._both(
            "Run", requests(), self._messages.output, motet_model=model, motet_node=node
        )
