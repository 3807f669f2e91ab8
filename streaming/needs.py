"""What each door needs of a pipeline, in words for users and in frames."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Need:
    """A pipeline that `does` this, as the ready-made one of the name `ready` does.

    It takes a frame of `accepts`, makes one of `emits` and none of `without`. One that holds
    conversations is needed for `conversation`, best with audio in and out, and else the last
    choice, since a door that needs none had better not wake a whole assistant.
    """

    does: str
    ready: str
    accepts: tuple[str, ...] = ()
    emits: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    conversation: bool = False


CHAT = Need("answers chats", "chat", ("Prompt",))
SPEECH = Need("speaks texts", "speak", ("TextDelta",))
TRANSCRIPTION = Need("transcribes files", "transcribe", ("MediaFile",), ("Segment",))
LIVE = Need("transcribes live audio", "voice", ("Audio",))
EMBEDDING = Need("embeds texts", "embed", ("TextInput",), ("Embedding",))
PICTURES = Need("makes pictures", "images", ("Generate",), without=("VideoClip",))
CLIPS = Need("makes clips", "videos", ("Generate",), ("VideoClip",))
MEDIA = Need("makes pictures or clips", "images", ("Generate",))
CONVERSATION = Need("holds conversations", "voice", conversation=True)
