"""NVIDIA Riva's `RivaSpeechRecognition` on any pipeline that takes audio."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from ...components.errors import BadInput, nearest
from ...components.frames import Audio, Frame, Transcript, TranscriptionSettings, TurnSettings
from ...components.wire import riva_asr_pb2 as riva
from ...components.wire import riva_common_pb2 as common
from ...components.wire.riva_asr_pb2_grpc import RivaSpeechRecognitionServicer
from ...pipelines.pipeline import Pipeline
from ..abilities import languages_of
from ..needs import LIVE
from .door import Door, opening
from .riva_tts import encoding_of, id_of
from .sound import Decoder, Format, audio_of, frames_of, unwrap
from .speech import transcripts

if TYPE_CHECKING:
    from .door import Context

ENCODINGS = {
    common.LINEAR_PCM: "pcm_s16le",
    common.MULAW: "mulaw",
    common.ALAW: "alaw",
}


class RivaRecognition(RivaSpeechRecognitionServicer):
    """Riva's methods. What Riva has and no pipeline here does is refused by name."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def Recognize(
        self, request: riva.RecognizeRequest, context: Context
    ) -> riva.RecognizeResponse:
        """A recording's transcript, a result for each utterance."""
        async with self._door.admit(context, "Riva Recognize") as caller:
            config = checked(request.config)
            pipeline = self._door.server.find(config.model, LIVE)
            settings = settings_of(config, language_of(config, pipeline), partials=False)
            data, form = unwrap(request.audio, format_of(config))
            samples = Decoder(form).push(data)

            async def audio() -> AsyncIterator[Audio]:
                for frame in frames_of(samples, form.rate_hz, 0.0):
                    yield frame

            answer = riva.RecognizeResponse(id=id_of(request))
            heard_ms = 0.0
            async with aclosing(transcripts(pipeline, audio(), settings, caller)) as lines:
                async for line in lines:
                    if line.final and line.text.strip():
                        heard_ms += line.audio_ms
                        one = answer.results.add(channel_tag=1, audio_processed=heard_ms / 1000)
                        one.alternatives.append(alternative(line, config))
            return answer

    async def StreamingRecognize(
        self,
        request_iterator: AsyncIterator[riva.StreamingRecognizeRequest],
        context: Context,
    ) -> AsyncIterator[riva.StreamingRecognizeResponse]:
        """Live audio's transcripts; partial ones where `interim_results` asks for them."""
        async with self._door.admit(context, "Riva StreamingRecognize") as caller:
            first = await opening(request_iterator, "streaming_request", "streaming_config")
            streaming = first.streaming_config
            config = checked(streaming.config)
            form = format_of(config) or Format(rate_hz=config.sample_rate_hertz or 16_000)
            heard = Heard()
            audio = heard.count(audio_of(chunks(request_iterator), form))
            pipeline = self._door.server.find(config.model, LIVE)
            language = language_of(config, pipeline)
            settings = settings_of(config, language, partials=streaming.interim_results)
            async with aclosing(transcripts(pipeline, audio, settings, caller)) as lines:
                async for line in lines:
                    if not line.text.strip() or not (line.final or streaming.interim_results):
                        continue
                    answer = riva.StreamingRecognizeResponse(id=id_of(first))
                    answer.results.add(
                        alternatives=[alternative(line, config)],
                        is_final=line.final,
                        stability=1.0 if line.final else 0.5,
                        channel_tag=1,
                        audio_processed=heard.ms / 1000,
                    )
                    yield answer

    async def GetRivaSpeechRecognitionConfig(
        self, request: riva.RivaSpeechRecognitionConfigRequest, context: Context
    ) -> riva.RivaSpeechRecognitionConfigResponse:
        """The pipelines that take audio, as Riva lists models."""
        async with self._door.admit(context, "Riva GetRivaSpeechRecognitionConfig"):
            answer = riva.RivaSpeechRecognitionConfigResponse()
            for pipeline in self._door.server.pipelines.values():
                known = not request.model_name or request.model_name == pipeline.name
                if known and pipeline.graph.entries(Audio):
                    parameters = {"type": "online", "streaming": "True", "sample_rate": "16000"}
                    if languages := languages_of(pipeline):
                        parameters["language_code"] = ",".join(languages)
                    answer.model_config.add(model_name=pipeline.name, parameters=parameters)
            return answer


class Heard:
    """How much audio a stream has brought, in milliseconds."""

    def __init__(self) -> None:
        self.ms = 0.0

    async def count(self, audio: AsyncIterator[Audio]) -> AsyncIterator[Audio]:
        """The same frames, counted."""
        async for frame in audio:
            self.ms = frame.end_ms
            yield frame


async def chunks(requests: AsyncIterator[riva.StreamingRecognizeRequest]) -> AsyncIterator[bytes]:
    """The audio of the messages behind the config."""
    async for request in requests:
        if request.runtime_config:
            raise BadInput("runtime_config isn't possible here", where="runtime_config")
        if request.WhichOneof("streaming_request") != "audio_content":
            raise BadInput("only audio may follow the config", where="audio_content")
        yield request.audio_content


def checked(config: riva.RecognitionConfig) -> riva.RecognitionConfig:
    """The config itself, if everything that it asks for is possible.

    Raises:
        BadInput: with the first thing that isn't.
    """
    refused = {
        "profanity_filter": config.profanity_filter,
        "diarization_config": config.diarization_config.enable_speaker_diarization,
        "enable_separate_recognition_per_channel": config.enable_separate_recognition_per_channel
        and config.audio_channel_count > 1,
        "custom_configuration": bool(config.custom_configuration),
        "speech_contexts.boost": any(one.boost < 0 for one in config.speech_contexts),
    }
    for name, asked in refused.items():
        if asked:
            raise BadInput(f"{name} isn't possible here", where="config", param=name)
    return config


def format_of(config: riva.RecognitionConfig) -> Format | None:
    """The format of raw audio; None where the config leaves it to the file."""
    encoding = encoding_of(config)
    if encoding == common.ENCODING_UNSPECIFIED:
        return None
    if encoding not in ENCODINGS:
        name = common.AudioEncoding.Name(encoding)
        possible = ", ".join(common.AudioEncoding.Name(one) for one in ENCODINGS)
        raise BadInput(
            f"encoding {name} isn't read; possible: {possible}", where="config", param="encoding"
        )
    rate_hz = config.sample_rate_hertz or 16_000
    return Format(ENCODINGS[encoding], rate_hz, config.audio_channel_count or 1).checked()


def language_of(config: riva.RecognitionConfig, pipeline: Pipeline) -> str | None:
    """The language to transcribe, by ISO 639-1; None to detect it ("multi" asks for that).

    Raises:
        BadInput: the pipeline's model doesn't know it.
    """
    code = _language(config)
    known = languages_of(pipeline)
    if code in ("", "multi"):
        return None
    if known and code not in known:
        raise BadInput(
            f"language_code {config.language_code!r} isn't possible; {nearest(code, known)}",
            where="config",
            param="language_code",
        )
    return code


def _language(config: riva.RecognitionConfig) -> str:
    """Of "en-US", "en"."""
    return config.language_code.partition("-")[0].lower()


def settings_of(
    config: riva.RecognitionConfig, language: str | None, *, partials: bool
) -> list[Frame]:
    """The config as the frames that set a session up."""
    phrases = [phrase for one in config.speech_contexts for phrase in one.phrases]
    found: list[Frame] = [
        TranscriptionSettings(
            language=language,
            prompt=", ".join(phrases) or None,
            partials=partials,
        )
    ]
    ends = config.endpointing_config
    if ends.HasField("stop_history") or ends.HasField("start_threshold"):
        default = TurnSettings()
        found.append(
            TurnSettings(
                threshold=ends.start_threshold or default.threshold,
                silence_duration_ms=ends.stop_history or default.silence_duration_ms,
            )
        )
    return found


def alternative(
    line: Transcript, config: riva.RecognitionConfig
) -> riva.SpeechRecognitionAlternative:
    """A transcript as Riva's (only) alternative; word times in milliseconds where there are any.
    Its language is the one that was heard, in the client's spelling where it asked for that."""
    heard = line.language or ""
    answer = riva.SpeechRecognitionAlternative(
        transcript=line.text.strip() + " ",
        confidence=math.exp(line.logprob) if line.logprob is not None else 0.0,
        language_code=[config.language_code if heard == _language(config) else heard] * bool(heard),
    )
    if config.enable_word_time_offsets:
        for word in line.words:
            answer.words.add(
                start_time=round(word.start_s * 1000),
                end_time=round(word.end_s * 1000),
                word=word.text.strip(),
                confidence=word.probability,
            )
    return answer
