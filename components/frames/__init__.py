"""Frames: what travels along the edges of a graph.

Frozen values, safe to share between tasks. Times in `_ms` count milliseconds of audio on the
stream that the frame belongs to, never wall time. A frame travels inside a turn: turn 0 is the
session's standing stream (listening), each further turn is one generation of answers that an
interrupt can end (see `pipelines.session`).
"""

from __future__ import annotations

from .base import (
    Control,
    Data,
    End,
    Fault,
    Frame,
    Progress,
    Samples,
    Tensor,
)
from .picture import (
    Generate,
    Image,
    VideoClip,
)
from .speech import (
    Audio,
    AudioTokens,
    Clear,
    Commit,
    MediaFile,
    Segment,
    SpeechPaused,
    SpeechStarted,
    SpeechStopped,
    Spoken,
    Transcript,
    TranscriptionSettings,
    TurnSettings,
    Voice,
    Word,
)
from .text import (
    CallRequest,
    Completed,
    Embedding,
    ImagePart,
    Likeliest,
    Message,
    Prompt,
    TextDelta,
    TextInput,
    Tool,
    ToolCall,
    Usage,
)

__all__ = [
    "Audio",
    "AudioTokens",
    "CallRequest",
    "Clear",
    "Commit",
    "Completed",
    "Control",
    "Data",
    "Embedding",
    "End",
    "Fault",
    "Frame",
    "Generate",
    "Image",
    "ImagePart",
    "Likeliest",
    "MediaFile",
    "Message",
    "Progress",
    "Prompt",
    "Samples",
    "Segment",
    "SpeechPaused",
    "SpeechStarted",
    "SpeechStopped",
    "Spoken",
    "Tensor",
    "TextDelta",
    "TextInput",
    "Tool",
    "ToolCall",
    "Transcript",
    "TranscriptionSettings",
    "TurnSettings",
    "Usage",
    "VideoClip",
    "Voice",
    "Word",
]
