"""Real OCR and real PDFs: text of pictures, pages with text and scans, document.yaml."""

from __future__ import annotations

import asyncio
import io
import struct
import threading
import zlib
from collections.abc import AsyncIterator
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
from documents import drawn, encoded, text_pdf
from PIL import Image as Picture
from running import ask, stream

from motet.components.base import Context, Resources, Setup
from motet.components.errors import BadInput
from motet.components.frames import (
    Image,
    ImagePart,
    MediaFile,
    Message,
    Progress,
    Prompt,
    TextDelta,
    TextInput,
)
from motet.components.pixels import decode, size_of
from motet.components.vision import pdf
from motet.components.vision.ocr import Line, VisionOcr, in_order
from motet.components.vision.pdf import PdfPages, pages
from motet.pipelines import Pipeline, load

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def ocr() -> AsyncIterator[VisionOcr]:
    engine = VisionOcr(Setup("ocr", resources=Resources(1)))
    await engine.load()
    yield engine
    await engine.close()


async def test_pictures_of_a_prompt_become_their_text_in_place(ocr: VisionOcr) -> None:
    shown = encoded(drawn("Invoice 4711", "Total 82.50 EUR"), "JPEG")
    blank = encoded(Picture.new("RGB", (200, 200), "white"))
    message = Message("user", "Look: what is due?", (ImagePart(shown, at=6), ImagePart(blank)))
    (read,) = await ask(ocr, Prompt((message,)))
    assert isinstance(read, Prompt)
    text = read.messages[0].text
    assert "nvoice 4711" in text
    assert "82.50" in text
    assert text.index("Look") < text.index("nvoice") < text.index("what is due")
    assert text.endswith("(a picture without text)")
    assert read.messages[0].images == ()


async def test_files_come_out_as_text_page_by_page(ocr: VisionOcr, tmp_path: Path) -> None:
    (tmp_path / "text.pdf").write_bytes(text_pdf("A page that holds its own text"))
    (tmp_path / "scan.pdf").write_bytes(encoded(drawn("Scanned page one"), "PDF"))
    reader = PdfPages(Setup("pdf"))
    found = []
    for name in ("text.pdf", "scan.pdf"):
        found += await ask(reader, MediaFile(str(tmp_path / name)))
    assert [type(frame) for frame in found] == [TextInput, Image]
    read = await ask(ocr, *found)
    texts = [" ".join(frame.text.split()) for frame in read if isinstance(frame, TextInput)]
    assert texts == ["A page that holds its own text", "Scanned page one"]


async def test_a_document_given_up_is_closed_off_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.pdf").write_bytes(
        text_pdf("A page that holds its own text", "And one more page like it")
    )
    closed: Future[str] = Future()
    close = pdf._Child.__exit__

    def noted(self: pdf._Child, *error: object) -> None:
        close(self, *error)
        closed.set_result(threading.current_thread().name)

    monkeypatch.setattr(pdf._Child, "__exit__", noted)
    run = PdfPages(Setup("pdf")).run(stream(MediaFile(str(tmp_path / "text.pdf"))), Context())
    assert isinstance(await anext(run), TextInput)
    await run.aclose()  # type: ignore[attr-defined]
    async with asyncio.timeout(10):
        assert await asyncio.wrap_future(closed) != threading.main_thread().name


def test_what_is_no_document_is_refused() -> None:
    for data, words in (
        (b"", "without a PDF header"),
        (b"%PDF-1.4 nothing more", "it is damaged"),
        (text_pdf("x")[:200], "damaged|0 pages"),
    ):
        with pytest.raises(BadInput, match=words):
            list(pages(data))
    many = io.BytesIO()
    drawn("x").save(many, "PDF", save_all=True, append_images=[drawn("y")] * 3)
    with pytest.raises(BadInput, match="4 pages; 1 to 3"):
        list(pages(many.getvalue(), max_pages=3))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "are no picture"),
        (b"GIF89a", "no picture|damaged"),
        (encoded(drawn("x"))[:300], "damaged"),
        (b"<svg></svg>", "are no picture"),
    ],
)
def test_broken_pictures_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        decode(data)


def test_pictures_are_turned_as_their_camera_says_and_laid_on_white() -> None:
    image = Picture.new("RGB", (40, 20), "red")
    exif = Picture.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    image.save(file, "JPEG", exif=exif)
    assert decode(file.getvalue()).shape == (40, 20, 3)
    assert (size_of(file.getvalue()).width, size_of(file.getvalue()).height) == (20, 40)
    clear = encoded(Picture.new("RGBA", (4, 4), (0, 0, 0, 0)))
    assert np.all(decode(clear) == 255)


def test_greys_of_16_bits_keep_their_shades() -> None:
    greys = np.arange(0, 65536, 64, dtype=np.uint16).reshape(32, 32)
    for kind in ("PNG", "TIFF"):
        shown = decode(encoded(Picture.fromarray(greys), kind))
        np.testing.assert_array_equal(shown[:, :, 0], greys >> 8)
    with pytest.raises(BadInput, match="mode F"):
        decode(encoded(Picture.fromarray(greys.astype(np.float32)), "TIFF"))


def test_an_animation_is_its_first_picture() -> None:
    first, second = (Picture.new("RGB", (8, 8), colour) for colour in ("red", "blue"))
    for kind in ("GIF", "WEBP", "PNG"):
        file = io.BytesIO()
        first.save(file, kind, save_all=True, append_images=[second] * 2, lossless=True)
        shown = decode(file.getvalue())
        assert shown.shape == (8, 8, 3)
        assert tuple(shown[4, 4]) == (255, 0, 0)


def test_a_picture_of_too_many_pixels_is_refused_by_its_header() -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n"
    for name, body in ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(100)))):
        data += struct.pack(">I", len(body)) + name + body
        data += struct.pack(">I", zlib.crc32(name + body))
    for bomb in (data, encoded(Picture.new("1", (9000, 9000)))):
        with pytest.raises(BadInput, match="at most 64 million"):
            decode(bomb)


def test_lines_are_put_in_reading_order() -> None:
    def line(text: str, left: float, top: float) -> Line:
        return Line(text, (left, top, left + 10, top + 10), 1.0)

    lines = [line("d", 50, 33), line("b", 50, 2), line("a", 0, 0), line("c", 0, 30)]
    assert in_order(lines) == "a  b\nc  d"


def test_the_document_pipeline_takes_files_and_prompts() -> None:
    graph = load("document")
    assert graph.entries(MediaFile) == ("pdf",)
    assert graph.entries(Prompt) == ("ocr",)
    out = [edge for edge in graph.edges if edge.target == "output" and edge.source == "ocr"]
    assert out[0].carries == (TextInput, Progress)


async def test_two_documents_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(encoded(drawn("one"), "PDF"))
    reader = PdfPages(Setup("pdf"))
    runs = [ask(reader, MediaFile(str(tmp_path / "a.pdf"))) for _ in range(6)]
    found = await asyncio.gather(*runs)
    assert all(isinstance(one[0], Image) for one in found)


@pytest.mark.slow
async def test_the_document_pipeline_answers_about_a_scan_and_gives_its_text(
    tmp_path: Path,
) -> None:
    shown = encoded(drawn("The meeting is at", "Nine Elm Street", "on Monday"))
    question = "Where is the meeting? Answer with the street."
    asked = Prompt(
        (Message("user", question, (ImagePart(shown, at=0),)),), temperature=0, max_tokens=40
    )
    (tmp_path / "scan.pdf").write_bytes(encoded(drawn("Nine Elm Street"), "PDF"))
    async with Pipeline(load("document")) as pipeline:
        said = [frame async for frame in pipeline.ask(asked)]
        text = [frame async for frame in pipeline.ask(MediaFile(str(tmp_path / "scan.pdf")))]
    answer = "".join(frame.text for frame in said if isinstance(frame, TextDelta))
    assert "Elm Street" in answer
    assert not any(isinstance(frame, Prompt) for frame in said)
    assert [type(frame) for frame in text] == [TextInput, Progress]
    assert "Elm Street" in " ".join(text[0].text.split())  # type: ignore[attr-defined]
