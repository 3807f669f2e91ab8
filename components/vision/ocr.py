"""`vision/ocr`: text of pictures (RapidOCR: PP-OCRv4 on ONNX, Latin and Chinese script).

It reads pages that come as `Image`, and the pictures of a `Prompt`, so that a language model that
sees nothing can answer about them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field
from rapidocr_onnxruntime import RapidOCR  # pyright: ignore[reportMissingTypeStubs]

from ..base import Component, Context, Options, Setup
from ..batching import Batcher
from ..frames import Control, Frame, Image, ImagePart, Message, Progress, Prompt, TextInput
from ..interleave import pieces
from ..onnx import sleeping
from ..pixels import Pixels, decode


class OcrOptions(Options):
    """Options of `vision/ocr`. Lines below `confidence` are left out."""

    confidence: float = Field(0.5, ge=0, le=1)
    max_side: int = Field(2000, ge=256, le=8192, description="larger pictures are reduced first")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text: its box (left, top, right, bottom) in pixels, and how sure it is."""

    text: str
    box: tuple[float, float, float, float]
    confidence: float


class VisionOcr(Component):
    """One engine for all sessions, a picture at a time. A `TextInput` (a page that was text
    already) is passed on in its place. Pages of a document are followed by `Progress`."""

    accepts = (Prompt, Image, TextInput)
    emits = (Prompt, TextInput, Progress)
    options = OcrOptions

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._options = OcrOptions.model_validate(dict(setup.options))
        self._engine: Any = None
        self._batcher: Batcher[Pixels, list[Line]] | None = None

    async def load(self) -> None:
        self._engine = await asyncio.to_thread(self._build)
        self._batcher = Batcher(self._read_all, size=1, name=self.setup.node)

    def _build(self) -> Any:
        make: Any = RapidOCR
        threads = self.setup.resources.threads
        engine = make(
            text_score=self._options.confidence,
            max_side_len=self._options.max_side,
            intra_op_num_threads=threads,
            inter_op_num_threads=1,
        )
        # Its own sessions let their threads spin.
        for part in (engine.text_det.infer, engine.text_cls.infer, engine.text_rec.session):
            part.session = sleeping(Path(part.session._model_path), threads)
        return engine

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            context.check(where=self.setup.node)
            if isinstance(frame, Image):
                text = in_order(await self._read(frame.pixels))
                frame = TextInput(text, frame.index, frame.meta)
            if isinstance(frame, Prompt):
                yield await self._without_pictures(frame)
            elif isinstance(frame, Control | TextInput):
                yield frame
            if isinstance(frame, TextInput) and "pages" in frame.options:
                yield Progress(frame.index + 1, frame.options["pages"])

    async def _without_pictures(self, prompt: Prompt) -> Prompt:
        """The prompt with the text of its pictures where they stood."""
        messages = [
            await self._message(message) if message.images else message
            for message in prompt.messages
        ]
        return replace(prompt, messages=tuple(messages))

    async def _message(self, message: Message) -> Message:
        parts: list[str] = []
        for piece in pieces(message):
            parts.append(piece if isinstance(piece, str) else await self._text_of(piece))
        return replace(message, text="\n".join(parts), images=())

    async def _text_of(self, image: ImagePart) -> str:
        pixels = await asyncio.to_thread(decode, image.data)
        return in_order(await self._read(pixels)) or "(a picture without text)"

    async def _read(self, pixels: Pixels) -> list[Line]:
        return await self.loaded(self._batcher)(pixels)

    def _read_all(self, batch: list[Pixels]) -> list[list[Line]]:
        return [self._lines(pixels) for pixels in batch]

    def _lines(self, pixels: Pixels) -> list[Line]:
        # The engine was made for BGR, as OpenCV reads pictures.
        found, _ = self._engine(pixels[:, :, ::-1].copy())
        return [_line(box, text, float(score)) for box, text, score in found or ()]

    async def close(self) -> None:
        if self._batcher is not None:
            await self._batcher.close()
        self._batcher = self._engine = None


def _line(box: Any, text: str, score: float) -> Line:
    across = [float(x) for x, _ in box]
    down = [float(y) for _, y in box]
    return Line(text, (min(across), min(down), max(across), max(down)), score)


def in_order(lines: list[Line]) -> str:
    """The text as it is read: boxes of about one height side by side, rows below each other."""
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda one: (one.box[1] + one.box[3]) / 2):
        middle = (line.box[1] + line.box[3]) / 2
        if rows and rows[-1][0].box[1] <= middle <= rows[-1][0].box[3]:
            rows[-1].append(line)
        else:
            rows.append([line])
    return "\n".join(
        "  ".join(line.text for line in sorted(row, key=lambda one: one.box[0])) for row in rows
    )
