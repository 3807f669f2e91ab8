from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Blob(_message.Message):
    __slots__ = ("inline", "shared", "length")
    INLINE_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    inline: bytes
    shared: str
    length: int
    def __init__(self, inline: _Optional[bytes] = ..., shared: _Optional[str] = ..., length: _Optional[int] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("dtype", "shape", "data")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: Blob
    def __init__(self, dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[_Union[Blob, _Mapping]] = ...) -> None: ...

class Json(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class Audio(_message.Message):
    __slots__ = ("pcm", "rate_hz", "start_ms", "speech")
    PCM_FIELD_NUMBER: _ClassVar[int]
    RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    SPEECH_FIELD_NUMBER: _ClassVar[int]
    pcm: Tensor
    rate_hz: int
    start_ms: float
    speech: float
    def __init__(self, pcm: _Optional[_Union[Tensor, _Mapping]] = ..., rate_hz: _Optional[int] = ..., start_ms: _Optional[float] = ..., speech: _Optional[float] = ...) -> None: ...

class SpeechStarted(_message.Message):
    __slots__ = ("utterance", "start_ms", "detected")
    UTTERANCE_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    DETECTED_FIELD_NUMBER: _ClassVar[int]
    utterance: int
    start_ms: float
    detected: bool
    def __init__(self, utterance: _Optional[int] = ..., start_ms: _Optional[float] = ..., detected: _Optional[bool] = ...) -> None: ...

class SpeechPaused(_message.Message):
    __slots__ = ("utterance", "end_ms")
    UTTERANCE_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    utterance: int
    end_ms: float
    def __init__(self, utterance: _Optional[int] = ..., end_ms: _Optional[float] = ...) -> None: ...

class SpeechStopped(_message.Message):
    __slots__ = ("utterance", "end_ms", "detected", "dropped", "decision_ms")
    UTTERANCE_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    DETECTED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    DECISION_MS_FIELD_NUMBER: _ClassVar[int]
    utterance: int
    end_ms: float
    detected: bool
    dropped: bool
    decision_ms: float
    def __init__(self, utterance: _Optional[int] = ..., end_ms: _Optional[float] = ..., detected: _Optional[bool] = ..., dropped: _Optional[bool] = ..., decision_ms: _Optional[float] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Clear(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TurnSettings(_message.Message):
    __slots__ = ("mode", "threshold", "prefix_padding_ms", "silence_duration_ms", "eagerness")
    MODE_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    PREFIX_PADDING_MS_FIELD_NUMBER: _ClassVar[int]
    SILENCE_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    EAGERNESS_FIELD_NUMBER: _ClassVar[int]
    mode: str
    threshold: float
    prefix_padding_ms: int
    silence_duration_ms: int
    eagerness: str
    def __init__(self, mode: _Optional[str] = ..., threshold: _Optional[float] = ..., prefix_padding_ms: _Optional[int] = ..., silence_duration_ms: _Optional[int] = ..., eagerness: _Optional[str] = ...) -> None: ...

class TranscriptionSettings(_message.Message):
    __slots__ = ("language", "prompt", "partials")
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    PARTIALS_FIELD_NUMBER: _ClassVar[int]
    language: str
    prompt: str
    partials: bool
    def __init__(self, language: _Optional[str] = ..., prompt: _Optional[str] = ..., partials: _Optional[bool] = ...) -> None: ...

class Word(_message.Message):
    __slots__ = ("text", "start_s", "end_s", "probability", "speaker")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    START_S_FIELD_NUMBER: _ClassVar[int]
    END_S_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    text: str
    start_s: float
    end_s: float
    probability: float
    speaker: str
    def __init__(self, text: _Optional[str] = ..., start_s: _Optional[float] = ..., end_s: _Optional[float] = ..., probability: _Optional[float] = ..., speaker: _Optional[str] = ...) -> None: ...

class Transcript(_message.Message):
    __slots__ = ("text", "final", "utterance", "language", "audio_ms", "compute_ms", "wait_ms", "logprob", "words")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    UTTERANCE_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    AUDIO_MS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_MS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    text: str
    final: bool
    utterance: int
    language: str
    audio_ms: float
    compute_ms: float
    wait_ms: float
    logprob: float
    words: _containers.RepeatedCompositeFieldContainer[Word]
    def __init__(self, text: _Optional[str] = ..., final: _Optional[bool] = ..., utterance: _Optional[int] = ..., language: _Optional[str] = ..., audio_ms: _Optional[float] = ..., compute_ms: _Optional[float] = ..., wait_ms: _Optional[float] = ..., logprob: _Optional[float] = ..., words: _Optional[_Iterable[_Union[Word, _Mapping]]] = ...) -> None: ...

class ImagePart(_message.Message):
    __slots__ = ("data", "detail", "at", "clip", "time_s")
    DATA_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    CLIP_FIELD_NUMBER: _ClassVar[int]
    TIME_S_FIELD_NUMBER: _ClassVar[int]
    data: Blob
    detail: str
    at: int
    clip: int
    time_s: float
    def __init__(self, data: _Optional[_Union[Blob, _Mapping]] = ..., detail: _Optional[str] = ..., at: _Optional[int] = ..., clip: _Optional[int] = ..., time_s: _Optional[float] = ...) -> None: ...

class CallRequest(_message.Message):
    __slots__ = ("call_id", "name", "arguments")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    name: str
    arguments: str
    def __init__(self, call_id: _Optional[str] = ..., name: _Optional[str] = ..., arguments: _Optional[str] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("role", "text", "images", "calls", "call_id")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    role: str
    text: str
    images: _containers.RepeatedCompositeFieldContainer[ImagePart]
    calls: _containers.RepeatedCompositeFieldContainer[CallRequest]
    call_id: str
    def __init__(self, role: _Optional[str] = ..., text: _Optional[str] = ..., images: _Optional[_Iterable[_Union[ImagePart, _Mapping]]] = ..., calls: _Optional[_Iterable[_Union[CallRequest, _Mapping]]] = ..., call_id: _Optional[str] = ...) -> None: ...

class Tool(_message.Message):
    __slots__ = ("name", "description", "parameters")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    parameters: Json
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., parameters: _Optional[_Union[Json, _Mapping]] = ...) -> None: ...

class Prompt(_message.Message):
    __slots__ = ("messages", "tools", "tool_choice", "max_tokens", "temperature", "top_p", "seed", "stop", "spoken", "schema", "logprobs", "image_tokens", "adapter")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CHOICE_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    SPOKEN_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    IMAGE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    tool_choice: str
    max_tokens: int
    temperature: float
    top_p: float
    seed: int
    stop: _containers.RepeatedScalarFieldContainer[str]
    spoken: bool
    schema: Json
    logprobs: int
    image_tokens: int
    adapter: str
    def __init__(self, messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., tool_choice: _Optional[str] = ..., max_tokens: _Optional[int] = ..., temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., seed: _Optional[int] = ..., stop: _Optional[_Iterable[str]] = ..., spoken: _Optional[bool] = ..., schema: _Optional[_Union[Json, _Mapping]] = ..., logprobs: _Optional[int] = ..., image_tokens: _Optional[int] = ..., adapter: _Optional[str] = ...) -> None: ...

class TokenLogprob(_message.Message):
    __slots__ = ("token", "logprob")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    token: str
    logprob: float
    def __init__(self, token: _Optional[str] = ..., logprob: _Optional[float] = ...) -> None: ...

class Likeliest(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[TokenLogprob]
    def __init__(self, tokens: _Optional[_Iterable[_Union[TokenLogprob, _Mapping]]] = ...) -> None: ...

class TextDelta(_message.Message):
    __slots__ = ("text", "spoken", "logprobs", "top")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SPOKEN_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    text: str
    spoken: bool
    logprobs: _containers.RepeatedCompositeFieldContainer[TokenLogprob]
    top: _containers.RepeatedCompositeFieldContainer[Likeliest]
    def __init__(self, text: _Optional[str] = ..., spoken: _Optional[bool] = ..., logprobs: _Optional[_Iterable[_Union[TokenLogprob, _Mapping]]] = ..., top: _Optional[_Iterable[_Union[Likeliest, _Mapping]]] = ...) -> None: ...

class ToolCall(_message.Message):
    __slots__ = ("call_id", "name", "arguments", "index", "done")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    name: str
    arguments: str
    index: int
    done: bool
    def __init__(self, call_id: _Optional[str] = ..., name: _Optional[str] = ..., arguments: _Optional[str] = ..., index: _Optional[int] = ..., done: _Optional[bool] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("input_tokens", "output_tokens", "cached_tokens", "image_tokens")
    INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    IMAGE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    image_tokens: int
    def __init__(self, input_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., image_tokens: _Optional[int] = ...) -> None: ...

class Completed(_message.Message):
    __slots__ = ("reason", "usage", "first_ms")
    REASON_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    FIRST_MS_FIELD_NUMBER: _ClassVar[int]
    reason: str
    usage: Usage
    first_ms: float
    def __init__(self, reason: _Optional[str] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., first_ms: _Optional[float] = ...) -> None: ...

class Voice(_message.Message):
    __slots__ = ("name", "speed", "exact")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    name: str
    speed: float
    exact: bool
    def __init__(self, name: _Optional[str] = ..., speed: _Optional[float] = ..., exact: _Optional[bool] = ...) -> None: ...

class Spoken(_message.Message):
    __slots__ = ("text", "start_ms", "end_ms", "compute_ms")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_MS_FIELD_NUMBER: _ClassVar[int]
    text: str
    start_ms: float
    end_ms: float
    compute_ms: float
    def __init__(self, text: _Optional[str] = ..., start_ms: _Optional[float] = ..., end_ms: _Optional[float] = ..., compute_ms: _Optional[float] = ...) -> None: ...

class AudioTokens(_message.Message):
    __slots__ = ("codes", "codec")
    CODES_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    codes: Tensor
    codec: str
    def __init__(self, codes: _Optional[_Union[Tensor, _Mapping]] = ..., codec: _Optional[str] = ...) -> None: ...

class TextInput(_message.Message):
    __slots__ = ("text", "index", "options")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    text: str
    index: int
    options: Json
    def __init__(self, text: _Optional[str] = ..., index: _Optional[int] = ..., options: _Optional[_Union[Json, _Mapping]] = ...) -> None: ...

class Embedding(_message.Message):
    __slots__ = ("vector", "index", "tokens", "meta")
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    vector: Tensor
    index: int
    tokens: int
    meta: Json
    def __init__(self, vector: _Optional[_Union[Tensor, _Mapping]] = ..., index: _Optional[int] = ..., tokens: _Optional[int] = ..., meta: _Optional[_Union[Json, _Mapping]] = ...) -> None: ...

class Image(_message.Message):
    __slots__ = ("pixels", "index", "preview", "meta")
    PIXELS_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PREVIEW_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    pixels: Tensor
    index: int
    preview: bool
    meta: Json
    def __init__(self, pixels: _Optional[_Union[Tensor, _Mapping]] = ..., index: _Optional[int] = ..., preview: _Optional[bool] = ..., meta: _Optional[_Union[Json, _Mapping]] = ...) -> None: ...

class VideoClip(_message.Message):
    __slots__ = ("pixels", "fps", "index", "meta")
    PIXELS_FIELD_NUMBER: _ClassVar[int]
    FPS_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    pixels: Tensor
    fps: float
    index: int
    meta: Json
    def __init__(self, pixels: _Optional[_Union[Tensor, _Mapping]] = ..., fps: _Optional[float] = ..., index: _Optional[int] = ..., meta: _Optional[_Union[Json, _Mapping]] = ...) -> None: ...

class Generate(_message.Message):
    __slots__ = ("prompt", "negative_prompt", "count", "width", "height", "frames", "fps", "steps", "guidance", "seed", "image", "strength", "previews", "options")
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_PROMPT_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    FPS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    GUIDANCE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    STRENGTH_FIELD_NUMBER: _ClassVar[int]
    PREVIEWS_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    prompt: str
    negative_prompt: str
    count: int
    width: int
    height: int
    frames: int
    fps: float
    steps: int
    guidance: float
    seed: int
    image: Blob
    strength: float
    previews: int
    options: Json
    def __init__(self, prompt: _Optional[str] = ..., negative_prompt: _Optional[str] = ..., count: _Optional[int] = ..., width: _Optional[int] = ..., height: _Optional[int] = ..., frames: _Optional[int] = ..., fps: _Optional[float] = ..., steps: _Optional[int] = ..., guidance: _Optional[float] = ..., seed: _Optional[int] = ..., image: _Optional[_Union[Blob, _Mapping]] = ..., strength: _Optional[float] = ..., previews: _Optional[int] = ..., options: _Optional[_Union[Json, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("done", "total", "note")
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    done: float
    total: float
    note: str
    def __init__(self, done: _Optional[float] = ..., total: _Optional[float] = ..., note: _Optional[str] = ...) -> None: ...

class MediaFile(_message.Message):
    __slots__ = ("path", "name", "options")
    PATH_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    path: str
    name: str
    options: Json
    def __init__(self, path: _Optional[str] = ..., name: _Optional[str] = ..., options: _Optional[_Union[Json, _Mapping]] = ...) -> None: ...

class Segment(_message.Message):
    __slots__ = ("text", "start_s", "end_s", "index", "speaker", "language", "logprob", "compression_ratio", "no_speech", "temperature", "tokens", "words", "marks")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    START_S_FIELD_NUMBER: _ClassVar[int]
    END_S_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_RATIO_FIELD_NUMBER: _ClassVar[int]
    NO_SPEECH_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    text: str
    start_s: float
    end_s: float
    index: int
    speaker: str
    language: str
    logprob: float
    compression_ratio: float
    no_speech: float
    temperature: float
    tokens: _containers.RepeatedScalarFieldContainer[int]
    words: _containers.RepeatedCompositeFieldContainer[Word]
    marks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, text: _Optional[str] = ..., start_s: _Optional[float] = ..., end_s: _Optional[float] = ..., index: _Optional[int] = ..., speaker: _Optional[str] = ..., language: _Optional[str] = ..., logprob: _Optional[float] = ..., compression_ratio: _Optional[float] = ..., no_speech: _Optional[float] = ..., temperature: _Optional[float] = ..., tokens: _Optional[_Iterable[int]] = ..., words: _Optional[_Iterable[_Union[Word, _Mapping]]] = ..., marks: _Optional[_Iterable[str]] = ...) -> None: ...

class Data(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: Json
    def __init__(self, value: _Optional[_Union[Json, _Mapping]] = ...) -> None: ...

class Fault(_message.Message):
    __slots__ = ("node", "code", "message", "utterance")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    UTTERANCE_FIELD_NUMBER: _ClassVar[int]
    node: str
    code: str
    message: str
    utterance: int
    def __init__(self, node: _Optional[str] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., utterance: _Optional[int] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("interrupted",)
    INTERRUPTED_FIELD_NUMBER: _ClassVar[int]
    interrupted: bool
    def __init__(self, interrupted: _Optional[bool] = ...) -> None: ...

class Finish(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Interrupt(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Frame(_message.Message):
    __slots__ = ("turn", "node", "audio", "speech_started", "speech_paused", "speech_stopped", "commit", "clear", "turn_settings", "transcription_settings", "transcript", "prompt", "text_delta", "tool_call", "completed", "voice", "spoken", "audio_tokens", "text_input", "embedding", "image", "video_clip", "generate", "progress", "media_file", "segment", "data", "fault", "end", "finish", "interrupt")
    TURN_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    SPEECH_STARTED_FIELD_NUMBER: _ClassVar[int]
    SPEECH_PAUSED_FIELD_NUMBER: _ClassVar[int]
    SPEECH_STOPPED_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    CLEAR_FIELD_NUMBER: _ClassVar[int]
    TURN_SETTINGS_FIELD_NUMBER: _ClassVar[int]
    TRANSCRIPTION_SETTINGS_FIELD_NUMBER: _ClassVar[int]
    TRANSCRIPT_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    TEXT_DELTA_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    VOICE_FIELD_NUMBER: _ClassVar[int]
    SPOKEN_FIELD_NUMBER: _ClassVar[int]
    AUDIO_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEXT_INPUT_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    VIDEO_CLIP_FIELD_NUMBER: _ClassVar[int]
    GENERATE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    MEDIA_FILE_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    INTERRUPT_FIELD_NUMBER: _ClassVar[int]
    turn: int
    node: str
    audio: Audio
    speech_started: SpeechStarted
    speech_paused: SpeechPaused
    speech_stopped: SpeechStopped
    commit: Commit
    clear: Clear
    turn_settings: TurnSettings
    transcription_settings: TranscriptionSettings
    transcript: Transcript
    prompt: Prompt
    text_delta: TextDelta
    tool_call: ToolCall
    completed: Completed
    voice: Voice
    spoken: Spoken
    audio_tokens: AudioTokens
    text_input: TextInput
    embedding: Embedding
    image: Image
    video_clip: VideoClip
    generate: Generate
    progress: Progress
    media_file: MediaFile
    segment: Segment
    data: Data
    fault: Fault
    end: End
    finish: Finish
    interrupt: Interrupt
    def __init__(self, turn: _Optional[int] = ..., node: _Optional[str] = ..., audio: _Optional[_Union[Audio, _Mapping]] = ..., speech_started: _Optional[_Union[SpeechStarted, _Mapping]] = ..., speech_paused: _Optional[_Union[SpeechPaused, _Mapping]] = ..., speech_stopped: _Optional[_Union[SpeechStopped, _Mapping]] = ..., commit: _Optional[_Union[Commit, _Mapping]] = ..., clear: _Optional[_Union[Clear, _Mapping]] = ..., turn_settings: _Optional[_Union[TurnSettings, _Mapping]] = ..., transcription_settings: _Optional[_Union[TranscriptionSettings, _Mapping]] = ..., transcript: _Optional[_Union[Transcript, _Mapping]] = ..., prompt: _Optional[_Union[Prompt, _Mapping]] = ..., text_delta: _Optional[_Union[TextDelta, _Mapping]] = ..., tool_call: _Optional[_Union[ToolCall, _Mapping]] = ..., completed: _Optional[_Union[Completed, _Mapping]] = ..., voice: _Optional[_Union[Voice, _Mapping]] = ..., spoken: _Optional[_Union[Spoken, _Mapping]] = ..., audio_tokens: _Optional[_Union[AudioTokens, _Mapping]] = ..., text_input: _Optional[_Union[TextInput, _Mapping]] = ..., embedding: _Optional[_Union[Embedding, _Mapping]] = ..., image: _Optional[_Union[Image, _Mapping]] = ..., video_clip: _Optional[_Union[VideoClip, _Mapping]] = ..., generate: _Optional[_Union[Generate, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., media_file: _Optional[_Union[MediaFile, _Mapping]] = ..., segment: _Optional[_Union[Segment, _Mapping]] = ..., data: _Optional[_Union[Data, _Mapping]] = ..., fault: _Optional[_Union[Fault, _Mapping]] = ..., end: _Optional[_Union[End, _Mapping]] = ..., finish: _Optional[_Union[Finish, _Mapping]] = ..., interrupt: _Optional[_Union[Interrupt, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("version", "incarnation", "node", "window", "max_message_bytes", "shared_memory", "component")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHARED_MEMORY_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    version: int
    incarnation: str
    node: str
    window: int
    max_message_bytes: int
    shared_memory: str
    component: str
    def __init__(self, version: _Optional[int] = ..., incarnation: _Optional[str] = ..., node: _Optional[str] = ..., window: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., shared_memory: _Optional[str] = ..., component: _Optional[str] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("node", "session", "turn", "remaining_s", "trace", "key", "window", "priority", "fellows", "within")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    REMAINING_S_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    FELLOWS_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    node: str
    session: str
    turn: int
    remaining_s: float
    trace: str
    key: str
    window: int
    priority: int
    fellows: bool
    within: int
    def __init__(self, node: _Optional[str] = ..., session: _Optional[str] = ..., turn: _Optional[int] = ..., remaining_s: _Optional[float] = ..., trace: _Optional[str] = ..., key: _Optional[str] = ..., window: _Optional[int] = ..., priority: _Optional[int] = ..., fellows: _Optional[bool] = ..., within: _Optional[int] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: int
    def __init__(self, frames: _Optional[int] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Abort(_message.Message):
    __slots__ = ("code", "message", "where", "retry_after_s", "param")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    PARAM_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    where: str
    retry_after_s: float
    param: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., where: _Optional[str] = ..., retry_after_s: _Optional[float] = ..., param: _Optional[str] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Status(_message.Message):
    __slots__ = ("state", "load_s", "message", "active", "utilisation", "code")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        LOADING: _ClassVar[Status.State]
        READY: _ClassVar[Status.State]
        DRAINING: _ClassVar[Status.State]
        FAILED: _ClassVar[Status.State]
    LOADING: Status.State
    READY: Status.State
    DRAINING: Status.State
    FAILED: Status.State
    STATE_FIELD_NUMBER: _ClassVar[int]
    LOAD_S_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    UTILISATION_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    state: Status.State
    load_s: float
    message: str
    active: int
    utilisation: float
    code: str
    def __init__(self, state: _Optional[_Union[Status.State, str]] = ..., load_s: _Optional[float] = ..., message: _Optional[str] = ..., active: _Optional[int] = ..., utilisation: _Optional[float] = ..., code: _Optional[str] = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Packet(_message.Message):
    __slots__ = ("call", "sequence", "frame", "open", "credit", "done", "abort", "heartbeat", "status", "drain", "hello", "goodbye")
    CALL_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    call: int
    sequence: int
    frame: Frame
    open: Open
    credit: Credit
    done: Done
    abort: Abort
    heartbeat: Heartbeat
    status: Status
    drain: Drain
    hello: Hello
    goodbye: Goodbye
    def __init__(self, call: _Optional[int] = ..., sequence: _Optional[int] = ..., frame: _Optional[_Union[Frame, _Mapping]] = ..., open: _Optional[_Union[Open, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., abort: _Optional[_Union[Abort, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., status: _Optional[_Union[Status, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("packets",)
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    packets: _containers.RepeatedCompositeFieldContainer[Packet]
    def __init__(self, packets: _Optional[_Iterable[_Union[Packet, _Mapping]]] = ...) -> None: ...

class AudioFormat(_message.Message):
    __slots__ = ("encoding", "rate_hz", "channels")
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    encoding: str
    rate_hz: int
    channels: int
    def __init__(self, encoding: _Optional[str] = ..., rate_hz: _Optional[int] = ..., channels: _Optional[int] = ...) -> None: ...

class RecognizeConfig(_message.Message):
    __slots__ = ("model", "format", "language", "prompt", "partials")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    PARTIALS_FIELD_NUMBER: _ClassVar[int]
    model: str
    format: AudioFormat
    language: str
    prompt: str
    partials: bool
    def __init__(self, model: _Optional[str] = ..., format: _Optional[_Union[AudioFormat, _Mapping]] = ..., language: _Optional[str] = ..., prompt: _Optional[str] = ..., partials: _Optional[bool] = ...) -> None: ...

class RecognizeRequest(_message.Message):
    __slots__ = ("config", "audio")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    config: RecognizeConfig
    audio: bytes
    def __init__(self, config: _Optional[_Union[RecognizeConfig, _Mapping]] = ..., audio: _Optional[bytes] = ...) -> None: ...

class RecognizeResponse(_message.Message):
    __slots__ = ("text", "transcripts", "audio_ms")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TRANSCRIPTS_FIELD_NUMBER: _ClassVar[int]
    AUDIO_MS_FIELD_NUMBER: _ClassVar[int]
    text: str
    transcripts: _containers.RepeatedCompositeFieldContainer[Transcript]
    audio_ms: float
    def __init__(self, text: _Optional[str] = ..., transcripts: _Optional[_Iterable[_Union[Transcript, _Mapping]]] = ..., audio_ms: _Optional[float] = ...) -> None: ...

class StreamingRecognizeRequest(_message.Message):
    __slots__ = ("config", "audio")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    config: RecognizeConfig
    audio: bytes
    def __init__(self, config: _Optional[_Union[RecognizeConfig, _Mapping]] = ..., audio: _Optional[bytes] = ...) -> None: ...

class SynthesizeConfig(_message.Message):
    __slots__ = ("model", "voice", "speed", "rate_hz")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VOICE_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    model: str
    voice: str
    speed: float
    rate_hz: int
    def __init__(self, model: _Optional[str] = ..., voice: _Optional[str] = ..., speed: _Optional[float] = ..., rate_hz: _Optional[int] = ...) -> None: ...

class SynthesizeRequest(_message.Message):
    __slots__ = ("config", "text")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    config: SynthesizeConfig
    text: str
    def __init__(self, config: _Optional[_Union[SynthesizeConfig, _Mapping]] = ..., text: _Optional[str] = ...) -> None: ...

class StreamingSynthesizeRequest(_message.Message):
    __slots__ = ("config", "text")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    config: SynthesizeConfig
    text: str
    def __init__(self, config: _Optional[_Union[SynthesizeConfig, _Mapping]] = ..., text: _Optional[str] = ...) -> None: ...

class SynthesizeResponse(_message.Message):
    __slots__ = ("audio", "rate_hz")
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    audio: bytes
    rate_hz: int
    def __init__(self, audio: _Optional[bytes] = ..., rate_hz: _Optional[int] = ...) -> None: ...

class SpeechChunk(_message.Message):
    __slots__ = ("audio", "rate_hz", "start_ms")
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    audio: bytes
    rate_hz: int
    start_ms: float
    def __init__(self, audio: _Optional[bytes] = ..., rate_hz: _Optional[int] = ..., start_ms: _Optional[float] = ...) -> None: ...

class ChatRequest(_message.Message):
    __slots__ = ("model", "prompt")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    model: str
    prompt: Prompt
    def __init__(self, model: _Optional[str] = ..., prompt: _Optional[_Union[Prompt, _Mapping]] = ...) -> None: ...

class EmbedRequest(_message.Message):
    __slots__ = ("model", "texts")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    model: str
    texts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, model: _Optional[str] = ..., texts: _Optional[_Iterable[str]] = ...) -> None: ...

class EmbedResponse(_message.Message):
    __slots__ = ("embeddings",)
    EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    embeddings: _containers.RepeatedCompositeFieldContainer[Embedding]
    def __init__(self, embeddings: _Optional[_Iterable[_Union[Embedding, _Mapping]]] = ...) -> None: ...

class GenerateMediaRequest(_message.Message):
    __slots__ = ("model", "request")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    model: str
    request: Generate
    def __init__(self, model: _Optional[str] = ..., request: _Optional[_Union[Generate, _Mapping]] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Model(_message.Message):
    __slots__ = ("name", "description", "nodes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Model]
    def __init__(self, models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ...) -> None: ...
