"""`vision/pdf`: pages of a PDF as text where they hold text, as pictures where they don't."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pypdfium2 as pdfium  # pyright: ignore[reportMissingTypeStubs]
from PIL import Image as Picture
from pydantic import Field

from ..base import Component, Context, Options
from ..errors import BadInput
from ..frames import Control, Frame, Image, MediaFile, TextInput
from ..pixels import Pixels, decode
from ..requestoptions import checked

MAGIC = b"%PDF-"
POINTS_PER_INCH = 72
MAX_SIDE = 4096
LOCK = threading.Lock()
"""PDFium isn't thread-safe, not even for two documents."""


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
        BadInput: it is no PDF, damaged, protected by a password, empty, or has too many pages.
    """
    api: Any = pdfium
    if MAGIC not in data[:1024]:
        raise _bad(f"{len(data)} bytes without a PDF header")
    with LOCK:
        try:
            document = api.PdfDocument(data)
        except api.PdfiumError as error:
            protected = "password" in str(error).lower()
            why = "it is protected by a password" if protected else "it is damaged"
            raise _bad(f"the PDF can't be read: {why}") from error
        count = len(document)
    try:
        if not 0 < count <= max_pages:
            raise _bad(f"the PDF has {count} pages; 1 to {max_pages} are read")
        for index in range(count):
            with LOCK:
                made = _page(document, index, count, dpi, fewest_letters)
            yield made
    except api.PdfiumError as error:
        raise _bad(f"a page of the PDF is damaged: {str(error)[:100]}") from error
    finally:
        with LOCK:
            document.close()


def _page(document: Any, index: int, count: int, dpi: int, fewest_letters: int) -> Page:
    page = document[index]
    try:
        text = page.get_textpage().get_text_bounded().replace("\r\n", "\n").strip()
        if sum(letter.isalnum() for letter in text) >= fewest_letters:
            return Page(index, count, text)
        scale = min(dpi / POINTS_PER_INCH, MAX_SIDE / max(*page.get_size(), 1))
        drawn = page.render(scale=scale).to_pil().convert("RGB")
        return Page(index, count, pixels=np.asarray(drawn))
    finally:
        page.close()


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
