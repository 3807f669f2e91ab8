"""NVIDIA Riva's `RivaSpeechSynthesis` on any pipeline that speaks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ...components.errors import BadInput
from ...components.frames import TextDelta, Voice
from ...components.wire import riva_common_pb2 as common
from ...components.wire import riva_tts_pb2 as riva
from ...components.wire.riva_tts_pb2_grpc import RivaSpeechSynthesisServicer
from ...pipelines.pipeline import Pipeline
from ...pipelines.version import Version
from ..abilities import Unspoken, rate_of, spoken_languages_of, voices_of, wished
from ..needs import SPEECH
from .door import Caller, Door
from .sound import Encoder
from .speech import speech, whole

if TYPE_CHECKING:
    from .door import Context

ENCODINGS = {
    common.ENCODING_UNSPECIFIED: "pcm_s16le",
    common.LINEAR_PCM: "pcm_s16le",
    common.MULAW: "mulaw",
    common.ALAW: "alaw",
}


class RivaSynthesis(RivaSpeechSynthesisServicer):
    """Riva's methods. What Riva has and no pipeline here does is refused by name."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def Synthesize(
        self, request: riva.SynthesizeSpeechRequest, context: Context
    ) -> riva.SynthesizeSpeechResponse:
        """A text as speech."""
        async with self._door.admit(context, "Riva Synthesize") as caller:
            pipeline = self._door.server.find(None, SPEECH)
            most = self._door.server.settings.max_message_bytes
            echoed = 2 * len(request.text.encode())
            pieces = spoken(checked(request), pipeline, caller)
            audio = await whole(pieces, most, beside=echoed, instead="SynthesizeOnline")
            meta = riva.SynthesizeSpeechResponseMetadata(
                text=request.text, processed_text=request.text
            )
            return riva.SynthesizeSpeechResponse(audio=audio, meta=meta, id=id_of(request))

    async def SynthesizeOnline(
        self,
        request_iterator: AsyncIterator[riva.SynthesizeSpeechRequest],
        context: Context,
    ) -> AsyncIterator[riva.SynthesizeSpeechResponse]:
        """Texts as speech, in pieces as they are made; each text in its order. One that makes no
        sound, as a lone bracket, is passed over where others do."""
        async with self._door.admit(context, "Riva SynthesizeOnline") as caller:
            pipeline = self._door.server.find(None, SPEECH)
            with pipeline.pick().held() as version:
                heard, silent = False, None
                async for request in request_iterator:
                    try:
                        async with aclosing(spoken(checked(request), version, caller)) as parts:
                            async for part in parts:
                                heard = True
                                yield riva.SynthesizeSpeechResponse(audio=part, id=id_of(request))
                    except Unspoken as error:
                        silent = error
                if silent and not heard:
                    raise silent

    async def GetRivaSynthesisConfig(
        self, request: riva.RivaSynthesisConfigRequest, context: Context
    ) -> riva.RivaSynthesisConfigResponse:
        """The voices, as Riva lists models."""
        async with self._door.admit(context, "Riva GetRivaSynthesisConfig"):
            answer = riva.RivaSynthesisConfigResponse()
            for pipeline in self._door.server.pipelines.values():
                known = not request.model_name or request.model_name == pipeline.name
                if known and pipeline.graph.entries(TextDelta):
                    voices = voices_of(pipeline)
                    parameters = {
                        "voice_name": voices[0] if voices else "default",
                        "subvoices": ",".join(f"{name}:{i}" for i, name in enumerate(voices)),
                    }
                    if languages := spoken_languages_of(pipeline):
                        parameters["language_code"] = ",".join(languages)
                    if rate_hz := rate_of(pipeline):
                        parameters["sample_rate"] = str(rate_hz)
                    answer.model_config.add(model_name=pipeline.name, parameters=parameters)
            return answer


async def spoken(
    request: riva.SynthesizeSpeechRequest, pipeline: Pipeline | Version, caller: Caller
) -> AsyncGenerator[bytes]:
    """The audio of one request, as it is made."""

    async def texts() -> AsyncIterator[str]:
        yield request.text

    encoder = Encoder(ENCODINGS[encoding_of(request)], request.sample_rate_hz)
    voice = voice_of(request.voice_name)
    async with aclosing(speech(pipeline, texts(), voice, caller)) as frames:
        async for frame in frames:
            if part := encoder.push(frame):
                yield part
    if rest := encoder.flush():
        yield rest


def voice_of(name: str) -> Voice:
    """The voice of that name. Riva's own names ("English-US.Female-1"), which its samples send,
    are the default one; the engine refuses any other that it hasn't."""
    return Voice(None) if "." in name else wished(name or None, 1.0)


def checked(request: riva.SynthesizeSpeechRequest) -> riva.SynthesizeSpeechRequest:
    """The request itself, if everything that it asks for is possible.

    Raises:
        BadInput: with the first thing that isn't.
    """
    encoding = encoding_of(request)
    if encoding not in ENCODINGS:
        name = common.AudioEncoding.Name(encoding)
        possible = ", ".join(common.AudioEncoding.Name(one) for one in ENCODINGS)
        raise BadInput(f"encoding {name} isn't made; possible: {possible}", param="encoding")
    refused = {
        "zero_shot_data": bool(request.zero_shot_data.audio_prompt),
        "custom_dictionary": bool(request.custom_dictionary),
        "custom_configuration": bool(request.custom_configuration),
        "enable_word_time_offsets": request.enable_word_time_offsets,
    }
    for name, asked in refused.items():
        if asked:
            raise BadInput(f"{name} isn't possible here", where="request", param=name)
    return request


def encoding_of(request: Any) -> common.AudioEncoding:
    """The encoding asked for; its stub, of another file, has no types."""
    return request.encoding


def id_of(request: Any) -> common.RequestId:
    """The request's id, which its answers carry."""
    return request.id
