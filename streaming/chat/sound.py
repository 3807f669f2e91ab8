"""What is said in a recording, by a pipeline of this server that transcribes files."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from ...components.frames import Data, MediaFile, Segment
from ...components.transcription import kind_of
from ..needs import TRANSCRIPTION

if TYPE_CHECKING:
    from ..access.auth import Principal
    from ..server import Server


async def transcript_of(path: Path, server: Server, asker: Principal) -> str:
    """The text of a recording or of a clip's sound; empty when nobody speaks.

    Raises:
        BadInput: no pipeline here transcribes files, or there is no sound in it.
    """
    pipeline = server.find(None, TRANSCRIPTION)
    said: list[str] = []
    recording = MediaFile(str(path), "the recording")
    run = pipeline.ask(recording, key=asker.name, priority=asker.priority)
    async with aclosing(run) as frames:
        async for frame in frames:
            if isinstance(frame, Segment):
                said.append(frame.text.strip())
            elif isinstance(frame, Data) and kind_of(frame) == "transcript":
                return str(frame.value.get("text", "")).strip()
    return " ".join(said).strip()
