"""Webhooks on their way: signed, tried again under one id, logged, replayed, given up."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

pytest.importorskip("procrastinate")
standardwebhooks = pytest.importorskip("standardwebhooks")

from fastapi import FastAPI, Request, Response  # noqa: E402
from serving import listening  # noqa: E402

from motet.pipelines import build  # noqa: E402
from motet.pipelines.spec import PipelineSpec  # noqa: E402
from motet.streaming import webhooks  # noqa: E402
from motet.streaming.app import create_app  # noqa: E402
from motet.streaming.server import Server  # noqa: E402
from motet.streaming.settings import Settings  # noqa: E402

pytestmark = pytest.mark.timeout(90)

Answer = Callable[[int], Response]


class Receiver:
    """A receiver of webhooks: keeps what came by id, and answers the nth attempt by `answer`."""

    def __init__(self) -> None:
        self.got: dict[str, list[tuple[dict[str, str], str]]] = defaultdict(list)
        self.answer: Answer = lambda attempt: Response()
        self.delay_s = 0.0
        self.app = FastAPI()
        self.app.post("/hook")(self.hook)

    async def hook(self, request: Request) -> Response:
        headers = dict(request.headers)
        body = (await request.body()).decode()
        attempts = self.got[headers["webhook-id"]]
        attempts.append((headers, body))
        await asyncio.sleep(self.delay_s)
        return self.answer(len(attempts))


@pytest.fixture(scope="module")
def receiver_app() -> Iterator[tuple[Receiver, str]]:
    receiver = Receiver()
    with listening(receiver.app) as address:
        yield receiver, address.replace("localhost", "127.0.0.1") + "/hook"


@pytest.fixture
def receiver(receiver_app) -> tuple[Receiver, str]:
    made, url = receiver_app
    made.got.clear()
    made.answer = lambda attempt: Response()
    made.delay_s = 0.0
    return made, url


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Attempts follow each other at once."""
    monkeypatch.setattr(webhooks, "SCHEDULE_S", (0, *[0.05] * 4))


@asynccontextmanager
async def server(postgres, tmp_path, *, loopback: bool = True):
    node = {"use": "jobfakes:Nothing"}
    spec = {"name": "nothing", "nodes": {"work": node}, "edges": ["input -> work -> output"]}
    settings = Settings(
        data_dir=tmp_path, database_url=postgres, allow_loopback_urls=loopback, api_keys=("mk-x",)
    )
    app = create_app(Server.make([build(PipelineSpec.model_validate(spec))], settings))
    headers = {"authorization": "Bearer mk-x"}
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers, timeout=30
        ) as http:
            for endpoint in (await http.get("/v1/webhooks")).json()["data"]:
                await http.delete(f"/v1/webhooks/{endpoint['id']}")
            yield http


async def job(http, **more: Any) -> str:
    body = {"pipeline": "nothing", "input": {"data": 1}, **more}
    return (await http.post("/v1/jobs", json=body)).json()["id"]


async def deliveries(http, wanted: int, state: str) -> list[dict[str, Any]]:
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s:
        found = (await http.get(f"/v1/webhooks/deliveries?state={state}")).json()["data"]
        if len(found) >= wanted:
            return found
        await asyncio.sleep(0.05)
    everything = (await http.get("/v1/webhooks/deliveries")).json()["data"]
    pytest.fail(f"{wanted} {state} deliveries wanted, got {everything}")


async def test_every_event_arrives_though_half_the_attempts_fail(postgres, tmp_path, receiver):
    hook, url = receiver
    hook.answer = lambda attempt: Response(status_code=500 if attempt % 2 else 200)
    async with server(postgres, tmp_path) as http:
        made = (await http.post("/v1/webhooks", json={"url": url})).json()
        jobs = {await job(http, metadata={"n": str(n)}) for n in range(10)}
        await deliveries(http, 10, "delivered")
    assert len(hook.got) == 10
    told = set()
    for message_id, attempts in hook.got.items():
        assert len(attempts) == 2
        for headers, body in attempts:
            event = standardwebhooks.Webhook(made["secret"]).verify(body, headers)
            assert headers["webhook-id"] == message_id
        told.add(event["data"]["id"])
        assert event["type"] == "job.completed"
        assert "result" not in event["data"], "events are thin"
    assert told == jobs


async def test_the_log_shows_every_attempt_and_no_signature(postgres, tmp_path, receiver):
    hook, url = receiver
    hook.answer = lambda attempt: Response(
        "so sorry" if attempt == 1 else "", 503 - 303 * (attempt > 1)
    )
    async with server(postgres, tmp_path) as http:
        await http.post("/v1/webhooks", json={"url": url})
        await job(http)
        (delivery,) = await deliveries(http, 1, "delivered")
        log = (await http.get(f"/v1/webhooks/deliveries/{delivery['id']}")).json()["attempts"]
    assert [attempt["status"] for attempt in log] == [503, 200]
    assert log[0]["response"] == "so sorry"
    assert log[0]["latency_ms"] > 0
    assert "webhook-signature" not in json.dumps(log)


async def test_what_fails_every_time_is_kept_and_replayed_under_its_id(
    postgres, tmp_path, receiver
):
    hook, url = receiver
    hook.answer = lambda attempt: Response(status_code=302, headers={"location": url})
    async with server(postgres, tmp_path) as http:
        await http.post("/v1/webhooks", json={"url": url})
        await job(http)
        (dead,) = await deliveries(http, 1, "failed")
        assert dead["attempts"] == 5
        hook.answer = lambda attempt: Response()
        body = {"ids": [dead["id"]]}
        assert (await http.post("/v1/webhooks/deliveries/replay", json=body)).json()["count"] == 1
        await deliveries(http, 1, "delivered")
        body = {"since": dead["created_at"]}
        await http.post("/v1/webhooks/deliveries/replay", json=body)
        for _ in range(100):
            if len(hook.got[dead["event"]]) == 7:
                break
            await asyncio.sleep(0.05)
    assert list(hook.got) == [dead["event"]], "one id on every attempt"
    assert len(hook.got[dead["event"]]) == 7


async def test_410_disables_the_endpoint(postgres, tmp_path, receiver):
    hook, url = receiver
    hook.answer = lambda attempt: Response(status_code=410)
    async with server(postgres, tmp_path) as http:
        made = (await http.post("/v1/webhooks", json={"url": url})).json()
        await job(http)
        await deliveries(http, 1, "failed")
        (endpoint,) = (await http.get("/v1/webhooks")).json()["data"]
        assert "410" in endpoint["disabled"]
        await job(http)
        await asyncio.sleep(0.3)
        assert len(hook.got) == 1
        hook.answer = lambda attempt: Response()
        await http.post(f"/v1/webhooks/{made['id']}/enable")
        await job(http)
        await deliveries(http, 1, "delivered")


async def test_a_rotated_secret_and_the_old_one_both_verify(postgres, tmp_path, receiver):
    hook, url = receiver
    async with server(postgres, tmp_path) as http:
        made = (await http.post("/v1/webhooks", json={"url": url})).json()
        path = f"/v1/webhooks/{made['id']}/rotate"
        fresh = (await http.post(path, json={"overlap_s": 3600})).json()["secret"]
        await job(http)
        await deliveries(http, 1, "delivered")
        ((headers, body),) = next(iter(hook.got.values()))
        for secret in (made["secret"], fresh):
            standardwebhooks.Webhook(secret).verify(body, headers)
        last = (await http.post(path, json={"overlap_s": 0})).json()["secret"]
        assert last != fresh
        listed = json.dumps((await http.get("/v1/webhooks")).json())
        assert "whsec_" not in listed


async def test_endpoints_choose_events_and_jobs_choose_endpoints(postgres, tmp_path, receiver):
    hook, url = receiver
    async with server(postgres, tmp_path) as http:
        failures = {"url": url, "events": ["job.failed"]}
        await http.post("/v1/webhooks", json=failures)
        wanted = (await http.post("/v1/webhooks", json={"url": url})).json()
        await job(http, webhook={"off": True})
        await job(http, webhook={"endpoint": wanted["id"]})
        (one,) = await deliveries(http, 1, "delivered")
        await asyncio.sleep(0.3)
        assert one["endpoint"] == wanted["id"]
        assert len(hook.got) == 1


async def test_a_job_may_name_a_url_of_its_own(postgres, tmp_path, receiver):
    """It alone is told, by a secret of the request, and shows up in no list of endpoints."""
    hook, url = receiver
    async with server(postgres, tmp_path) as http:
        await http.post("/v1/webhooks", json={"url": url})
        body = {"pipeline": "nothing", "inputs": [{"data": 1}, {"data": 2}]}
        body["webhook"] = {"url": url}
        made = (await http.post("/v1/jobs", json=body, headers={"idempotency-key": "o"})).json()
        found = await deliveries(http, 2, "delivered")
        assert {one["endpoint"] for one in found} == {made["webhook"]["endpoint"]}
        for attempts in hook.got.values():
            headers, text = attempts[0]
            standardwebhooks.Webhook(made["webhook"]["secret"]).verify(text, headers)
        assert len((await http.get("/v1/webhooks")).json()["data"]) == 1
        again = await http.post("/v1/jobs", json=body, headers={"idempotency-key": "o"})
        assert "webhook" not in again.json()
        assert len(await deliveries(http, 2, "delivered")) == 2
        own = webhooks.new_secret()
        await job(http, webhook={"url": url, "secret": own})
        await deliveries(http, 3, "delivered")
        headers, text = list(hook.got.values())[-1][0]
        standardwebhooks.Webhook(own).verify(text, headers)


@pytest.mark.parametrize(
    ("webhook", "said"),
    [
        ({"url": "ftp://example.org"}, "scheme"),
        ({"url": "https://example.org", "off": True}, "exclude"),
        ({"url": "https://example.org", "secret": "whsec_short"}, "secret"),
        ({"secret": "whsec_short"}, "goes with url"),
    ],
)
async def test_wrong_urls_of_a_job_are_400s(postgres, tmp_path, webhook, said):
    async with server(postgres, tmp_path, loopback=False) as http:
        body = {"pipeline": "nothing", "input": {"data": 1}, "webhook": webhook}
        got = await http.post("/v1/jobs", json=body)
        assert got.status_code == 400
        assert said in got.json()["error"]["message"]


async def test_a_receiver_that_stalls_holds_up_nobody(postgres, tmp_path, receiver, monkeypatch):
    hook, url = receiver
    hook.delay_s = 30
    monkeypatch.setattr("motet.streaming.jobs.outbox.TIMEOUT_S", 0.3)
    async with server(postgres, tmp_path) as http:
        await http.post("/v1/webhooks", json={"url": url})
        await job(http)
        (dead,) = await deliveries(http, 1, "failed")
        log = (await http.get(f"/v1/webhooks/deliveries/{dead['id']}")).json()["attempts"]
        assert "no answer" in log[0]["error"]
        hook.delay_s = 0


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/hook",
        "https://user:pass@example.org/hook",
        "ftp://example.org",
        "https://",
        "nonsense",
    ],
)
async def test_urls_of_the_wrong_form_are_refused(postgres, tmp_path, url):
    async with server(postgres, tmp_path, loopback=False) as http:
        assert (await http.post("/v1/webhooks", json={"url": url})).status_code == 400


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "2130706433", "0x7f.1", "0.0.0.0", "10.0.0.8", "169.254.169.254", "[::1]",
     "[::ffff:127.0.0.1]", "localhost", "100.64.0.1", "[fe80::1]", "[64:ff9b::7f00:1]"],
)  # fmt: skip
async def test_no_delivery_reaches_the_inside(postgres, tmp_path, receiver, host):
    hook, url = receiver
    port = url.split(":")[2].split("/")[0]
    async with server(postgres, tmp_path, loopback=False) as http:
        inside = {"url": f"https://{host}:{port}/hook"}
        got = await http.post("/v1/webhooks", json=inside)
        if got.status_code == 201:
            await job(http)
            (dead,) = await deliveries(http, 1, "failed")
            log = (await http.get(f"/v1/webhooks/deliveries/{dead['id']}")).json()["attempts"]
            assert all(attempt["status"] is None for attempt in log)
    assert hook.got == {}
