"""Parts of a chat message: pictures, clips, recordings and documents become text and pictures."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...components.errors import BadInput
from ...components.frames import ImagePart
from ..access.auth import Principal
from ..dataurl import data_of, decoded
from ..fetch import fetch_bytes, fetch_file
from ..upload import Upload
from .sound import transcript_of

if TYPE_CHECKING:
    from ..server import Server

Json = dict[str, Any]
MAX_IMAGE_BYTES = 20 * 1024 * 1024
MAX_FILE_BYTES = 512 * 1024 * 1024
MAX_PARTS_BYTES = 128 * 1024 * 1024
"""Of all texts, pictures, pages and frames of clips in one request, held in memory together."""
ATTACHED = "attachment:"


class Body(BaseModel):
    """Base of the request's parts; what isn't known is refused, never ignored."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


Part = TypeVar("Part", bound=Body)


class ImageUrl(Body):
    """A picture's place; "original" is looked at as closely as "high"."""

    url: str
    detail: Literal["auto", "low", "high", "original"] = "auto"

    @property
    def closeness(self) -> Literal["auto", "low", "high"]:
        """How closely components are asked to look."""
        return "high" if self.detail == "original" else self.detail


class VideoUrl(ImageUrl):
    """A clip's place, how it is sampled, and whether its sound is written into the prompt.

    `fps` frames a second are looked at, at most `max_frames`, reduced to `max_side` pixels.
    """

    fps: Annotated[float, Field(gt=0, le=30)] = 1.0
    max_frames: Annotated[int, Field(ge=1, le=256)] = 32
    max_side: Annotated[int, Field(ge=32, le=2048)] = 768
    transcribe: bool = False


class InputAudio(Body):
    """A recording, base64."""

    data: str
    format: Literal["wav", "mp3", "flac", "ogg", "m4a", "webm"] = "wav"


class FileData(Body):
    """A document: a PDF, a picture or plain text, as a data URL, base64, or an attachment's id."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


@dataclass
class PartReader:
    """Reads the parts of one request's messages; `uploads` are the files sent along with it."""

    server: Server
    asker: Principal = field(default_factory=Principal)
    uploads: Mapping[str, Upload] = field(default_factory=dict[str, Upload])
    _clips: int = 0
    _bytes_read: int = 0

    async def read(self, part: Json) -> list[str | ImagePart]:
        """A part as texts and pictures, in order.

        Raises:
            BadInput: it is of an unknown kind, can't be fetched, can't be read, or is too much.
        """
        pieces = await self._read(part)
        for one in pieces:
            self._bytes_read += len(one if isinstance(one, str) else one.data)
        if self._bytes_read > MAX_PARTS_BYTES:
            raise bad(str(part["type"]), f"all parts together have over {MAX_PARTS_BYTES} bytes")
        return pieces

    async def _read(self, part: Json) -> list[str | ImagePart]:
        kind = part.get("type")
        if kind == "text":
            text = part.get("text")
            if not isinstance(text, str):
                raise bad("text", f"it is {text!r:.100}, not a string")
            return [text]
        if kind == "image_url":
            return [await self._image(checked(ImageUrl, part, kind))]
        if kind == "video_url":
            return await self._video(checked(VideoUrl, part, kind))
        if kind == "input_audio":
            return [await self._audio(checked(InputAudio, part, kind))]
        if kind == "file":
            return await self._file(checked(FileData, part, kind))
        raise BadInput(
            f"a content part of type {kind!r} is not possible; known: text, image_url, video_url,"
            " input_audio, file",
            where="messages",
            param="messages",
        )

    async def _image(self, asked: ImageUrl) -> ImagePart:
        return ImagePart(await self._bytes(asked.url, "image_url"), asked.closeness)

    async def _video(self, asked: VideoUrl) -> list[str | ImagePart]:
        from ...components.vision.video import Sampling, sample

        self._clips += 1
        sampling = Sampling(asked.fps, asked.max_frames, asked.max_side, detail=asked.closeness)
        async with self._on_disk(asked.url, "video_url") as path:
            frames = await asyncio.to_thread(
                sample, path, sampling, clip=self._clips, name="the clip"
            )
            if not asked.transcribe:
                return [*frames]
            said = await transcript_of(path, self.server, self.asker)
        return [*frames, f"(The clip's sound: {said or 'no speech'})"]

    async def _audio(self, asked: InputAudio) -> str:
        url = f"data:audio/{asked.format};base64,{asked.data}"
        async with self._on_disk(url, "input_audio") as path:
            return await transcript_of(path, self.server, self.asker)

    async def _file(self, asked: FileData) -> list[str | ImagePart]:
        if (asked.file_data is None) == (asked.file_id is None):
            raise bad("file", "one of file_data and file_id is needed")
        if asked.file_data is None:
            data = await self._bytes(f"{ATTACHED}{asked.file_id}", "file")
        elif asked.file_data.startswith(("data:", "https:", "http:")):
            data = await self._bytes(asked.file_data, "file")
        else:
            data = decoded(asked.file_data, "messages: file", "messages")
        return await asyncio.to_thread(document, data, asked.filename or "document")

    async def _bytes(self, url: str, part: str) -> bytes:
        """What lies at a data URL, an https URL, or in an attachment."""
        limit = MAX_FILE_BYTES if part == "file" else MAX_IMAGE_BYTES
        if url.startswith(ATTACHED):
            upload = self._upload(url, part)
            if upload.size_bytes > limit:
                raise bad(part, f"{upload.filename!r} has over {limit} bytes")
            return await asyncio.to_thread(upload.path.read_bytes)
        if url.startswith("data:"):
            data = data_of(url, f"messages: {part}", "messages")
            if len(data) > limit:
                raise bad(part, f"it has {len(data)} bytes; at most {limit} are taken")
            return data
        loopback = self.server.settings.allow_loopback_urls
        return await fetch_bytes(url, limit_bytes=limit, allow_loopback=loopback, param="messages")

    def _upload(self, url: str, part: str) -> Upload:
        name = url.removeprefix(ATTACHED)
        if name not in self.uploads:
            known = ", ".join(self.uploads) or "none"
            raise bad(part, f"no file {name!r} came with the request; attached: {known}")
        return self.uploads[name]

    @asynccontextmanager
    async def _on_disk(self, url: str, part: str) -> AsyncGenerator[Path]:
        """The file of a URL while it is read; attachments are read where they lie."""
        if url.startswith(ATTACHED):
            yield self._upload(url, part).path
            return
        folder = self.server.settings.data_dir / "uploads"
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        path = folder / secrets.token_hex(16)
        try:
            if url.startswith("data:"):
                await asyncio.to_thread(
                    path.write_bytes, data_of(url, f"messages: {part}", "messages")
                )
            else:
                await fetch_file(
                    url,
                    path,
                    limit_bytes=MAX_FILE_BYTES,
                    allow_loopback=self.server.settings.allow_loopback_urls,
                    param="messages",
                )
            yield path
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)


def document(data: bytes, name: str) -> list[str | ImagePart]:
    """A document's text, and a picture of each page that has none; blocking.

    Raises:
        BadInput: it is no PDF, no picture and no UTF-8 text.
    """
    from ...components import pixels
    from ...components.vision import pdf

    head = f"[{name}]"
    if pdf.MAGIC in data[:1024]:
        found: list[str | ImagePart] = [head]
        for page in pdf.pages(data):
            found.append(page.text if page.pixels is None else ImagePart(page.png(), "high"))
        return found
    with suppress(UnicodeDecodeError):
        if b"\0" not in data:
            return [f"{head}\n{data.decode()}"]
    pixels.size_of(data)
    return [head, ImagePart(data, "high")]


def placed(pieces: list[str | ImagePart]) -> tuple[str, tuple[ImagePart, ...]]:
    """Texts joined by line ends, and the pictures with their places in them."""
    text, images = "", list[ImagePart]()
    texts = 0
    for piece in pieces:
        if isinstance(piece, str):
            text += f"\n{piece}" if texts else piece
            texts += 1
        else:
            images.append(replace(piece, at=len(text)))
    return text, tuple(images)


def checked(kind: type[Part], part: Json, name: str) -> Part:
    """A part's own object, checked; a bare URL is short for one.

    Raises:
        BadInput: with everything that is wrong in it.
    """
    value: Any = part.get(name)
    try:
        return kind.model_validate({"url": value} if isinstance(value, str) else value)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}"
            for one in error.errors(include_url=False)
        ]
        raise bad(name, "; ".join(faults)) from error


def bad(part: str, message: str) -> BadInput:
    """What is wrong with a part."""
    return BadInput(f"{part}: {message}", where="messages", param="messages")
