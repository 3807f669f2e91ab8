"""`vision/pdf`: pages of a PDF as text where they hold text, as pictures where they don't."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from PIL import Image as Picture
from pydantic import Field

from ..base import Component, Context, Options, Setup
from ..errors import BadInput
from ..frames import Control, Frame, Generate, Image, MediaFile, TextInput
from ..pixels import Pixels, decode
from ..requestoptions import checked

MAGIC = b"%PDF-"
PAGE_S = 30
MEMORY_BYTES = 2 * 1024**3
PLACES = threading.BoundedSemaphore(os.cpu_count() or 1)
"""So many pages are drawn at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """One page: its `text`, or its `pixels` where it has none (a scan). `index` from 0."""

    index: int
    count: int
    text: str = ""
    pixels: Pixels | None = None

    def png(self) -> bytes:
        """The picture, encoded; nothing where the page is text."""
        file = io.BytesIO()
        if self.pixels is not None:
            Picture.fromarray(self.pixels).save(file, "PNG", compress_level=1)
        return file.getvalue()


def pages(
    data: bytes, *, dpi: int = 150, max_pages: int = 50, fewest_letters: int = 16
) -> Iterator[Page]:
    """The pages of a PDF in order; blocking. A page with fewer letters than that is drawn.

    Raises:
        BadInput: it is no PDF, damaged, protected by a password, empty, has too many pages, or a
            page takes too much time or memory.
    """
    if MAGIC not in data[:1024]:
        raise _bad(f"{len(data)} bytes without a PDF header")
    with _Child(data, dpi=dpi, fewest_letters=fewest_letters) as child:
        count = child.count()
        if not 0 < count <= max_pages:
            raise _bad(f"the PDF has {count} pages; 1 to {max_pages} are read")
        for index in range(count):
            yield child.page(index, count)


class _Child:
    """The process that reads one document; use it as a context."""

    def __init__(self, data: bytes, **asked: int) -> None:
        self._data = data
        memory = MEMORY_BYTES + 2 * len(data)
        self._asked = {**asked, "bytes": len(data), "memory_bytes": memory, "page_s": PAGE_S}

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", f"{__package__}.pdfchild"]
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def count(self) -> int:
        """How many pages the document has."""
        with PLACES:
            return self._answer(json.dumps(self._asked).encode() + b"\n" + self._data)["count"]

    def page(self, index: int, count: int) -> Page:
        """The next page."""
        with PLACES:
            told = self._answer(b"\n", f"page {index + 1} of ")
            if "text" in told:
                return Page(index, count, told["text"])
            height, width, stride = told["height"], told["width"], told["stride"]
            raw = self._output.read(height * stride)
        if len(raw) < height * stride:
            raise _bad(f"page {index + 1} of the PDF can't be read: {self._why()}")
        rows = np.frombuffer(raw, np.uint8).reshape(height, stride)
        return Page(index, count, pixels=rows[:, : 3 * width].reshape(height, width, 3))

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def _answer(self, wish: bytes, page: str = "") -> dict[str, Any]:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # its end tells why
            self._process.stdin.write(wish)
            self._process.stdin.flush()
        line = self._output.readline()
        if not line:
            raise _bad(f"{page}the PDF can't be read: {self._why()}")
        told = json.loads(line)
        if "error" in told:
            raise _bad(f"{page}the PDF can't be read: {_said(told['error'])}")
        return told

    def _why(self) -> str:
        """Why the process ended."""
        if self._process.wait() == -signal.SIGXCPU:
            return f"it takes over {PAGE_S} s of computing"
        return f"it takes over {MEMORY_BYTES >> 20} MiB of memory, or is damaged"


def _said(error: str) -> str:
    if "password" in error.lower():
        return "it is protected by a password"
    if error == "memory":
        return f"it takes over {MEMORY_BYTES >> 20} MiB of memory"
    return error if "letters" in error else f"it is damaged ({error[:100]})"


def _bad(message: str) -> BadInput:
    return BadInput(message, where="file", param="file")


class PdfOptions(Options):
    """How pages are drawn, and how many a document may have."""

    dpi: int = Field(150, ge=36, le=600)
    max_pages: int = Field(200, ge=1, le=10_000)
    fewest_letters: int = Field(16, ge=0, description="below that a page counts as a scan")
    max_bytes: int = Field(100 * 1024 * 1024, ge=1024)


class DocumentOptions(Options):
    """What a file's own `options` may say; `max_pages` can only lower the node's."""

    dpi: int | None = Field(None, ge=36, le=600)
    max_pages: int | None = Field(None, ge=1)


class PdfPages(Component):
    """A document file (PDF or a picture) in; each page out as `TextInput` or as `Image`."""

    accepts = (MediaFile,)
    emits = (TextInput, Image)
    options = PdfOptions

    @classmethod
    def refuse(cls, setup: Setup, asked: MediaFile | Generate) -> None:
        """Refuse options that no document has."""
        checked(DocumentOptions, asked.options, where="options")

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            if isinstance(frame, MediaFile):
                context.check(where=self.setup.node)
                async with aclosing(self._read(frame)) as pages:
                    async for page in pages:
                        yield page
            elif isinstance(frame, Control):
                yield frame

    async def _read(self, file: MediaFile) -> AsyncGenerator[TextInput | Image, None]:
        loop, made = asyncio.get_running_loop(), self._pages(file)
        pool = ThreadPoolExecutor(1, thread_name_prefix=self.setup.node)
        try:
            while (page := await loop.run_in_executor(pool, next, made, None)) is not None:
                meta = {"pages": page.count}
                if page.pixels is None:
                    yield TextInput(page.text, page.index, meta)
                else:
                    yield Image(page.pixels, page.index, meta=meta)
        finally:
            # Behind the page that may be under way: closing waits for PDFium, the loop doesn't.
            pool.submit(made.close)
            pool.shutdown(wait=False)

    def _pages(self, file: MediaFile) -> Generator[Page]:
        options = PdfOptions.model_validate(dict(self.setup.options))
        asked = checked(DocumentOptions, file.options, where="options")
        path = Path(file.path)
        if not path.is_file() or path.stat().st_size > options.max_bytes:
            raise _bad(f"{file.name or path.name!r} isn't there, or over {options.max_bytes} bytes")
        data = path.read_bytes()
        if MAGIC not in data[:1024]:
            yield Page(0, 1, pixels=decode(data, param="file"))
            return
        yield from pages(
            data,
            dpi=asked.dpi or options.dpi,
            max_pages=min(asked.max_pages or options.max_pages, options.max_pages),
            fewest_letters=options.fewest_letters,
        )
