"""Known speakers' recordings, which come as data URLs, as files while a request lasts."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from ...components.errors import BadInput
from ..dataurl import data_of
from .request import AudioRequest

MOST_CHARS = 12 * 1024 * 1024
_PARAM = "known_speaker_references"


@asynccontextmanager
async def references(request: AudioRequest, folder: Path) -> AsyncGenerator[dict[str, str]]:
    """The files of the speakers, by their names, in `folder`.

    Raises:
        BadInput: one is no data URL with base64, is too large, or a name stands twice.
    """
    said = await asyncio.to_thread(recordings, request)
    files = {name: folder / f"voice-{secrets.token_hex(16)}" for name in said}
    try:
        for name, file in files.items():
            await asyncio.to_thread(file.write_bytes, said[name])
        yield {name: str(file) for name, file in files.items()}
    finally:
        for file in files.values():
            await asyncio.to_thread(file.unlink, missing_ok=True)


def recordings(request: AudioRequest) -> dict[str, bytes]:
    """What each speaker said. Blocks."""
    said: dict[str, bytes] = {}
    pairs = zip(request.known_speaker_names, request.known_speaker_references, strict=True)
    for name, url in pairs:
        if name in said:
            raise BadInput("a name stands twice", where=_PARAM, param="known_speaker_names")
        if len(url) > MOST_CHARS:
            raise BadInput(f"of {name!r} is over 12 MB", where=_PARAM, param=_PARAM)
        try:
            said[name] = data_of(url, _PARAM)
        except BadInput as error:
            raise BadInput(f"of {name!r} {error.message}", where=_PARAM, param=_PARAM) from error
    return said
