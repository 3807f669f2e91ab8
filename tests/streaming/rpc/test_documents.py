"""Documents over gRPC: PDFs and pictures through `Run` and `Chat`, files only where allowed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from documents import drawn, encoded, text_pdf

pytest.importorskip("rapidocr_onnxruntime")

from motet.components.errors import BadInput
from motet.components.frames import (
    Fault,
    Frame,
    ImagePart,
    MediaFile,
    Message,
    Prompt,
    TextDelta,
    TextInput,
)
from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.client import AsyncClient
from motet.streaming.rpc.server import serving
from motet.streaming.server import Server
from motet.streaming.settings import Settings

pytestmark = pytest.mark.timeout(120)

# document.yaml with an echo where its language model stands.
DOCUMENT: dict[str, Any] = {
    "name": "document",
    "nodes": {
        "pdf": {"use": "vision/pdf"},
        "ocr": {"use": "vision/ocr"},
        "llm": {"use": "rpcfakes:Brain"},
    },
    "edges": [
        "input -> pdf -> ocr",
        "input -> ocr -> llm -> output",
        {"ocr -> output": ["TextInput", "Progress"]},
    ],
}


@asynccontextmanager
async def client(**settings: Any) -> AsyncIterator[AsyncClient]:
    graph = build(PipelineSpec.model_validate(DOCUMENT))
    server = Server.make([graph], Settings(host="localhost", shutdown_grace_s=0.2, **settings))
    async with (
        server.pipelines["document"],
        serving(server, port=0) as port,
        AsyncClient(f"localhost:{port}") as made,
    ):
        yield made


async def asked(*frames: Frame) -> AsyncIterator[tuple[int, Frame]]:
    for turn, frame in enumerate(frames, 1):
        yield turn, frame


async def test_files_of_the_input_folder_come_as_text_page_by_page(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "text.pdf").write_bytes(text_pdf("The first page says this", "the second that too"))
    (folder / "scan.pdf").write_bytes(encoded(drawn("Nine Elm Street"), "PDF"))
    (folder / "broken.pdf").write_bytes(text_pdf("cut off")[:200])
    (tmp_path / "outside.pdf").write_bytes(text_pdf("not to be read by anyone"))
    async with client(input_dir=folder) as motet:
        names = ("text.pdf", "scan.pdf", "broken.pdf")
        frames = asked(*(MediaFile(str(folder / name)) for name in names))
        got = [one async for one in motet.run(frames, model="document")]
        texts = [(turn, " ".join(f.text.split())) for turn, _, f in got if isinstance(f, TextInput)]
        first = [text for turn, text in texts if turn == 1]
        assert first == ["The first page says this", "the second that too"]
        assert (2, "Nine Elm Street") in texts
        faults = [(turn, f.code) for turn, _, f in got if isinstance(f, Fault)]
        assert faults == [(3, "invalid_value")]
        for path in (tmp_path / "outside.pdf", folder / ".." / "outside.pdf"):
            with pytest.raises(BadInput, match="may not be read"):
                [one async for one in motet.run(asked(MediaFile(str(path))), model="document")]


async def test_a_chat_with_a_picture_is_answered_about_its_text() -> None:
    picture = ImagePart(encoded(drawn("Nine Elm Street")), at=0)
    prompt = Prompt((Message("user", "Where?", (picture,)),))
    async with client() as motet:
        said = [frame async for frame in motet.chat(prompt, model="document")]
    text = "".join(frame.text for frame in said if isinstance(frame, TextDelta))
    assert "Elm Street" in text
    assert text.endswith("Where?")
