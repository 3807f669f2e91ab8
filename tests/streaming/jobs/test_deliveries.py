"""Webhooks on their way: signed, tried again under one id, logged, replayed, given up."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading

import pytest

pytest.importorskip("procrastinate")

from fastapi import FastAPI, Response
from hookclients import attempts, deliveries, job, server
from serving import listening

standardwebhooks = pytest.importorskip("standardwebhooks")

pytestmark = [pytest.mark.timeout(90), pytest.mark.usefixtures("quick_attempts")]


async def test_every_event_arrives_though_half_the_attempts_fail(postgres, tmp_path, receiver):
    hook, url = receiver
    hook.answer = lambda attempt: Response(status_code=500 if attempt % 2 else 200)
    async with server(postgres, tmp_path) as http:
        made = (await http.post("/v1/webhooks", json={"url": url})).json()
        jobs = {
            await job(http, input={"data": 1, "name": f"talk {n}"}, metadata={"n": str(n)})
            for n in range(10)
        }
        await deliveries(http, 10, "delivered")
    assert len(hook.got) == 10
    told = set()
    for message_id, sent in hook.got.items():
        assert len(sent) == 2
        for headers, body in sent:
            event = standardwebhooks.Webhook(made["secret"]).verify(body, headers)
            assert headers["webhook-id"] == message_id
        told.add(event["data"]["id"])
        assert event["type"] == "job.completed"
        assert "result" not in event["data"], "events are thin"
        assert event["data"]["input"] == {"name": f"talk {event['data']['metadata']['n']}"}
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
    postgres, tmp_path, receiver, caplog
):
    caplog.set_level("INFO", "motet.webhooks")
    hook, url = receiver
    hook.answer = lambda attempt: Response(status_code=302, headers={"location": url})
    async with server(postgres, tmp_path) as http:
        await http.post("/v1/webhooks", json={"url": url})
        await job(http)
        (dead,) = await deliveries(http, 1, "failed")
        assert dead["attempts"] == 5
        said = [one for one in caplog.records if dead["id"] in one.getMessage()]
        assert [one.levelname for one in said] == ["INFO"] * 4 + ["WARNING"]
        assert all("status 302" in one.getMessage() for one in said)
        metrics = (await http.get("/metrics")).text
        assert 'motet_webhook_attempts_total{outcome="retried"} 4.0' in metrics
        assert 'motet_webhook_attempts_total{outcome="dead"} 1.0' in metrics
        hook.answer = lambda attempt: Response()
        body = {"ids": [dead["id"]]}
        assert (await http.post("/v1/webhooks/deliveries/replay", json=body)).json()["count"] == 1
        await deliveries(http, 1, "delivered")
        body = {"since": dead["created_at"]}
        await http.post("/v1/webhooks/deliveries/replay", json=body)
        log = await attempts(http, dead["id"], 7)
        assert [one["status"] for one in log] == [302] * 5 + [200] * 2
    assert list(hook.got) == [dead["event"]], "one id on every attempt"
    assert len(hook.got[dead["event"]]) == 7


async def test_410_disables_the_endpoint(postgres, tmp_path, receiver, caplog):
    hook, url = receiver
    hook.answer = lambda attempt: Response(status_code=410)
    async with server(postgres, tmp_path) as http:
        made = (await http.post("/v1/webhooks", json={"url": url})).json()
        await job(http)
        await deliveries(http, 1, "failed")
        (endpoint,) = (await http.get("/v1/webhooks")).json()["data"]
        assert "410" in endpoint["disabled"]
        assert any("is disabled" in one.getMessage() for one in caplog.records)
        await job(http)
        await asyncio.sleep(0.3)
        assert len(hook.got) == 1
        hook.answer = lambda attempt: Response()
        await http.post(f"/v1/webhooks/{made['id']}/enable")
        await job(http)
        await deliveries(http, 1, "delivered")


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


async def test_what_ends_while_an_endpoint_is_disabled_can_be_replayed(
    postgres, tmp_path, receiver
):
    hook, url = receiver
    hook.answer = lambda attempt: Response(status_code=410)
    async with server(postgres, tmp_path) as http:
        made = (await http.post("/v1/webhooks", json={"url": url})).json()
        await job(http)
        (first,) = await deliveries(http, 1, "failed")
        await job(http)
        await deliveries(http, 2, "failed")
        hook.answer = lambda attempt: Response()
        await http.post(f"/v1/webhooks/{made['id']}/enable")
        body = {"since": first["created_at"], "endpoint": made["id"]}
        assert (await http.post("/v1/webhooks/deliveries/replay", json=body)).json()["count"] == 2
        await deliveries(http, 2, "delivered")


@pytest.mark.parametrize("after", ["\xb2", "9" * 400, "Mon, 01 Jan 99999999999 00:00:00 GMT"])
async def test_a_receiver_can_not_break_the_sender(postgres, tmp_path, receiver, after):
    """By what it says of when to come again, nor by an answer that unpacks to gigabytes."""
    hook, url = receiver
    headers = {"retry-after": after, "content-encoding": "gzip"}
    bomb = gzip.compress(bytes(50_000_000))
    hook.answer = lambda attempt: Response(bomb, 503, headers)
    async with server(postgres, tmp_path) as http:
        await http.post("/v1/webhooks", json={"url": url})
        await job(http)
        (one,) = await deliveries(http, 1, "pending")
        await attempts(http, one["id"], 1)
        hook.answer = lambda attempt: Response()
        await http.post("/v1/webhooks/deliveries/replay", json={"ids": [one["id"]]})
        await deliveries(http, 1, "delivered")
        log = await attempts(http, one["id"], 2)
        assert len(log[0]["response"]) <= 4096
        assert (await http.get("/readyz")).json()["ready"]


async def test_one_receiver_that_stalls_leaves_room_for_the_others(postgres, tmp_path, receiver):
    """More wait for it than are sent at once."""
    hook, url = receiver
    stalled = FastAPI()
    held = threading.Event()

    @stalled.post("/hook")
    def hold() -> Response:
        held.wait(30)
        return Response()

    async with server(postgres, tmp_path) as http:
        with listening(stalled) as address:
            slow = f"{address.replace('localhost', '127.0.0.1')}/hook"
            made = (await http.post("/v1/webhooks", json={"url": slow})).json()["id"]
            body = {"pipeline": "nothing", "inputs": [{"data": n} for n in range(50)]}
            await http.post("/v1/jobs", json=body)
            await deliveries(http, 50, "pending")
            await http.post("/v1/webhooks", json={"url": url})
            await job(http)
            (one,) = await deliveries(http, 1, "delivered")
            assert one["endpoint"] != made
            assert len(hook.got) == 1
            held.set()
            await http.delete(f"/v1/webhooks/{made}")
