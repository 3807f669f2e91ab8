"""Forms with files: parts go to disk as they arrive, counted against a limit."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from fastapi import Request
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from ..components.errors import BadInput
from .bodies import ON_DISK
from .fetch import TooLarge

_WRITE_BYTES = 1024 * 1024
_FIELD_BYTES = 2 * 1024 * 1024
_FIELDS_BYTES = 48 * 1024 * 1024
_PARTS = 300


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of the form, whole on disk. `filename` is what the client calls it."""

    path: Path
    filename: str
    size_bytes: int


@dataclass(slots=True)
class Form:
    """Fields in order, a name as often as it was sent, and files by name."""

    fields: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    files: list[tuple[str, Upload]] = field(default_factory=list[tuple[str, Upload]])

    def file(self, name: str) -> Upload:
        """The one file of that name.

        Raises:
            BadInput: there is none, or several.
        """
        found = [upload for key, upload in self.files if key == name]
        if len(found) != 1:
            raise BadInput(f"one file {name!r} is needed, got {len(found)}", param=name)
        return found[0]


@asynccontextmanager
async def received(request: Request, folder: Path, *, limit_bytes: int) -> AsyncGenerator[Form]:
    """The multipart form of a request; its files are gone when the context ends, unless moved.

    Raises:
        BadInput: it is no form, is broken, or breaks off.
        TooLarge: the body is over `limit_bytes`.
    """
    kind, options = parse_options_header(request.headers.get("content-type"))
    if kind != b"multipart/form-data" or b"boundary" not in options:
        raise BadInput("a multipart/form-data body with a file is needed", param="file")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit_bytes:
        raise TooLarge(f"{length} bytes; at most {limit_bytes} are taken", where="body")
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    request.scope[ON_DISK] = True
    reader = _Reader(options[b"boundary"], folder)
    try:
        await _feed(request, reader, limit_bytes)
        yield reader.form
    finally:
        await asyncio.to_thread(reader.remove)


async def _feed(request: Request, reader: _Reader, limit_bytes: int) -> None:
    total = 0
    pending = bytearray()
    try:
        async for block in request.stream():
            total += len(block)
            if total > limit_bytes:
                raise TooLarge(f"more than {limit_bytes} bytes", where="body")
            pending += block
            if len(pending) >= _WRITE_BYTES:
                await asyncio.to_thread(reader.write, bytes(pending))
                pending.clear()
        await asyncio.to_thread(reader.write, bytes(pending))
        reader.finish()
    except FormParserError as error:
        raise BadInput(f"the form is broken: {error}", param="file") from error


class _Reader:
    """Takes the parser's callbacks; one part is open at a time."""

    def __init__(self, boundary: bytes, folder: Path) -> None:
        self.form = Form()
        self._folder = folder
        self._made: list[Path] = []
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": lambda data, low, high: self._key.extend(data[low:high]),
                "on_header_value": lambda data, low, high: self._value.extend(data[low:high]),
                "on_header_end": self._header,
                "on_headers_finished": self._open,
                "on_part_data": self._data,
                "on_part_end": self._end,
                "on_end": self._whole,
            },
        )
        self._key, self._value = bytearray(), bytearray()
        self._disposition = b""
        self._name = ""
        self._filename: str | None = None
        self._text = bytearray()
        self._texts_bytes = 0
        self._file: BinaryIO | None = None
        self._path = folder
        self._parts = 0
        self._complete = False

    def write(self, data: bytes) -> None:
        """Parse more of the body; blocks on the disk."""
        self._parser.write(data)

    def finish(self) -> None:
        """The body is over."""
        self._parser.finalize()
        if not self._complete:
            raise BadInput("the form breaks off before its end", param="file")

    def remove(self) -> None:
        """Close and delete what is still where it was written."""
        if self._file is not None:
            self._file.close()
        for path in self._made:
            path.unlink(missing_ok=True)

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > _PARTS:
            raise BadInput(
                f"the form has more than {_PARTS} parts; send the others in forms of their own, or"
                " name files by their URLs where JSON is taken",
                where="body",
            )
        self._disposition = b""

    def _header(self) -> None:
        if bytes(self._key).lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._key.clear()
        self._value.clear()

    def _open(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode(errors="replace")
        filename = options.get(b"filename")
        self._filename = None if filename is None else filename.decode(errors="replace")
        self._text.clear()
        if self._filename is not None:
            self._path = self._folder / secrets.token_hex(16)
            self._file = self._path.open("xb")
            self._made.append(self._path)

    def _data(self, data: bytes, low: int, high: int) -> None:
        if self._file is not None:
            self._file.write(data[low:high])
            return
        self._text += data[low:high]
        if len(self._text) > _FIELD_BYTES:
            raise TooLarge(f"field {self._name!r} is over {_FIELD_BYTES} bytes", where="body")
        self._texts_bytes += high - low
        if self._texts_bytes > _FIELDS_BYTES:
            raise TooLarge(f"all fields are over {_FIELDS_BYTES} bytes", where="body")

    def _end(self) -> None:
        if self._file is None:
            try:
                self.form.fields.append((self._name, self._text.decode()))
            except UnicodeDecodeError as error:
                raise BadInput("isn't UTF-8", where=self._name, param=self._name) from error
            return
        size = self._file.tell()
        self._file.close()
        self._file = None
        name = Path(self._filename or "").name or "upload"
        self.form.files.append((self._name, Upload(self._path, name, size)))

    def _whole(self) -> None:
        self._complete = True
