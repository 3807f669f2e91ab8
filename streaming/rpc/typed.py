"""The service `motet.v1.Motet`: sessions, and the usual calls by their own names."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ...components.errors import BadInput
from ...components.frames import (
    Audio,
    Completed,
    Embedding,
    Frame,
    Image,
    Progress,
    TextDelta,
    TextInput,
    ToolCall,
    Transcript,
    TranscriptionSettings,
    VideoClip,
    Voice,
)
from ...components.wire import motet_pb2 as pb
from ...components.wire.codec import Codec
from ...components.wire.motet_pb2_grpc import MotetServicer
from ..abilities import wished
from ..needs import CHAT, EMBEDDING, LIVE, MEDIA, SPEECH, Need
from .door import Caller, Door, opening
from .idle import watched
from .run import Reader, run_component, run_pipeline
from .sound import Decoder, Encoder, Format, audio_of, frames_of, unwrap
from .speech import speech, transcripts, whole

if TYPE_CHECKING:
    from .door import Context

MAX_TEXTS = 2048


class MotetService(MotetServicer):
    """The typed methods on the pipelines of a server. `codec` bounds payloads."""

    def __init__(self, door: Door, codec: Codec) -> None:
        self._door = door
        self._codec = codec

    async def Run(self, request_iterator: AsyncIterator[pb.Frame], context: Context) -> None:
        """A session of a pipeline, or a run of one of its components."""
        async with self._door.admit(context, "Run") as caller:
            pipeline = self._door.server.find(caller.model)
            if caller.model and pipeline.name != caller.model:
                known = ", ".join(self._door.server.pipelines)
                raise BadInput(
                    f"no pipeline {caller.model!r}; known: {known}",
                    where="motet-model",
                    param="motet-model",
                )
            reader = Reader(self._codec, self._door.server.settings.input_dir)
            run = run_component if caller.node else run_pipeline
            async with watched(pipeline.graph.spec.sessions.idle_s) as watch:
                frames = watch.heard(request_iterator)
                async with aclosing(run(pipeline, frames, reader, caller)) as answers:
                    async for answer in answers:
                        await watch.tell(context, answer)

    async def Recognize(
        self, request: pb.RecognizeRequest, context: Context
    ) -> pb.RecognizeResponse:
        """What is said in a recording."""
        async with self._door.admit(context, "Recognize") as caller:
            config = request.config
            data, form = unwrap(request.audio, format_of(config.format))
            samples = Decoder(form).push(data)

            async def audio() -> AsyncIterator[Audio]:
                for frame in frames_of(samples, form.rate_hz, 0.0):
                    yield frame

            found = [
                one
                async for one in self._transcripts(config, audio(), caller, partials=False)
                if one.final
            ]
            return pb.RecognizeResponse(
                text=" ".join(one.text.strip() for one in found if one.text.strip()),
                transcripts=[self._message(one).transcript for one in found],
                audio_ms=len(samples) * 1000 / form.rate_hz,
            )

    async def StreamingRecognize(
        self,
        request_iterator: AsyncIterator[pb.StreamingRecognizeRequest],
        context: Context,
    ) -> AsyncIterator[pb.Transcript]:
        """What is said, while it is said."""
        async with self._door.admit(context, "StreamingRecognize") as caller:
            first = await opening(request_iterator, "part", "config")
            form = format_of(first.config.format) or Format()

            async def chunks() -> AsyncIterator[bytes]:
                async for request in request_iterator:
                    if request.WhichOneof("part") != "audio":
                        raise BadInput("only audio may follow the config", where="audio")
                    yield request.audio

            audio = audio_of(chunks(), form)
            found = self._transcripts(first.config, audio, caller, partials=first.config.partials)
            async with aclosing(found) as lines:
                async for one in lines:
                    yield self._message(one).transcript

    def _transcripts(
        self,
        config: pb.RecognizeConfig,
        audio: AsyncIterator[Audio],
        caller: Caller,
        *,
        partials: bool,
    ) -> AsyncGenerator[Transcript]:
        pipeline = self._door.server.find(config.model, LIVE)
        settings = TranscriptionSettings(
            language=config.language if config.HasField("language") else None,
            prompt=config.prompt if config.HasField("prompt") else None,
            partials=partials,
        )
        return transcripts(pipeline, audio, [settings], caller)

    async def Synthesize(
        self, request: pb.SynthesizeRequest, context: Context
    ) -> pb.SynthesizeResponse:
        """A text as speech."""
        async with self._door.admit(context, "Synthesize") as caller:

            async def texts() -> AsyncIterator[str]:
                yield request.text

            rate_hz = 0

            async def pieces() -> AsyncGenerator[bytes]:
                nonlocal rate_hz
                async with aclosing(self._speech(request.config, texts(), caller)) as parts:
                    async for part in parts:
                        rate_hz = part.rate_hz
                        yield part.audio

            most = self._door.server.settings.max_message_bytes
            audio = await whole(pieces(), most, instead="StreamingSynthesize")
            return pb.SynthesizeResponse(audio=audio, rate_hz=rate_hz)

    async def StreamingSynthesize(
        self,
        request_iterator: AsyncIterator[pb.StreamingSynthesizeRequest],
        context: Context,
    ) -> AsyncIterator[pb.SpeechChunk]:
        """A text as it is written, as speech while it is made."""
        async with self._door.admit(context, "StreamingSynthesize") as caller:
            first = await opening(request_iterator, "part", "config")

            async def texts() -> AsyncIterator[str]:
                async for request in request_iterator:
                    if request.WhichOneof("part") != "text":
                        raise BadInput("only text may follow the config", where="text")
                    yield request.text

            async with aclosing(self._speech(first.config, texts(), caller)) as parts:
                async for part in parts:
                    yield part

    async def _speech(
        self, config: pb.SynthesizeConfig, texts: AsyncIterator[str], caller: Caller
    ) -> AsyncGenerator[pb.SpeechChunk]:
        pipeline = self._door.server.find(config.model, SPEECH)
        voice = voice_of(
            config.voice if config.HasField("voice") else None,
            config.speed if config.HasField("speed") else 1.0,
        )
        encoder, start_ms = Encoder("pcm_s16le", config.rate_hz), 0.0
        async with aclosing(speech(pipeline, texts, voice, caller)) as frames:
            async for frame in frames:
                start_ms = frame.start_ms
                audio = encoder.push(frame)
                yield pb.SpeechChunk(audio=audio, rate_hz=encoder.rate_hz, start_ms=start_ms)
        rest = encoder.flush()
        if rest:
            yield pb.SpeechChunk(audio=rest, rate_hz=encoder.rate_hz, start_ms=start_ms)

    async def Chat(self, request: pb.ChatRequest, context: Context) -> AsyncIterator[pb.Frame]:
        """A model's answer, as it is made."""
        async with self._door.admit(context, "Chat") as caller:
            message = pb.Frame()
            message.prompt.CopyFrom(request.prompt)
            kinds = (TextDelta, ToolCall, Completed)
            prompt = self._codec.decode(message)
            async with aclosing(self._ask(request.model, CHAT, [prompt], caller)) as frames:
                async for frame in frames:
                    if isinstance(frame, kinds):
                        yield self._message(frame)

    async def Embed(self, request: pb.EmbedRequest, context: Context) -> pb.EmbedResponse:
        """Texts as vectors, in their order."""
        async with self._door.admit(context, "Embed") as caller:
            if not 1 <= len(request.texts) <= MAX_TEXTS:
                raise BadInput(
                    f"{len(request.texts)} texts; possible: 1 to {MAX_TEXTS}",
                    where="texts",
                    param="texts",
                )
            inputs = [TextInput(text, index) for index, text in enumerate(request.texts)]
            found = [
                frame
                async for frame in self._ask(request.model, EMBEDDING, inputs, caller)
                if isinstance(frame, Embedding)
            ]
            found.sort(key=lambda one: one.index)
            return pb.EmbedResponse(embeddings=[self._message(one).embedding for one in found])

    async def GenerateMedia(
        self, request: pb.GenerateMediaRequest, context: Context
    ) -> AsyncIterator[pb.Frame]:
        """Pictures or a clip, with the progress on the way."""
        async with self._door.admit(context, "GenerateMedia") as caller:
            message = pb.Frame()
            message.generate.CopyFrom(request.request)
            kinds = (Progress, Image, VideoClip)
            asked = self._codec.decode(message)
            async with aclosing(self._ask(request.model, MEDIA, [asked], caller)) as frames:
                async for frame in frames:
                    if isinstance(frame, kinds):
                        yield self._message(frame)

    async def ListModels(
        self, request: pb.ListModelsRequest, context: Context
    ) -> pb.ListModelsResponse:
        """The pipelines that this server has."""
        del request
        async with self._door.admit(context, "ListModels"):
            return pb.ListModelsResponse(
                models=[
                    pb.Model(
                        name=one.name,
                        description=one.graph.spec.description,
                        nodes=list(one.graph.order),
                    )
                    for one in self._door.server.pipelines.values()
                ]
            )

    def _ask(
        self, model: str, need: Need, frames: list[Any], caller: Caller
    ) -> AsyncGenerator[Frame]:
        pipeline = self._door.server.find(model, need)
        return pipeline.ask(
            *frames,
            deadline_s=caller.deadline_s,
            key=caller.name,
            trace=caller.trace,
            priority=caller.priority,
        )

    def _message(self, frame: Frame) -> pb.Frame:
        message = pb.Frame()
        self._codec.encode(frame, message)
        return message


def format_of(message: pb.AudioFormat) -> Format | None:
    """The format that a message says; None if it leaves it to the file."""
    if not message.encoding:
        return None
    return Format(message.encoding, message.rate_hz or 16_000, message.channels or 1).checked()


def voice_of(name: str | None, speed: float) -> Voice:
    """A voice with a possible speed.

    Raises:
        BadInput: the speed is out of range.
    """
    if not 0.25 <= speed <= 4:
        raise BadInput(f"speed is {speed}; possible: 0.25 to 4", where="speed", param="speed")
    return wished(name or None, speed)
