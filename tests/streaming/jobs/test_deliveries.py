"""Webhooks on their way: signed, tried again under one id, logged, replayed, given up."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("procrastinate")

from fastapi import Response
from hookclients import deliveries, job, server

from motet.streaming import webhooks

standardwebhooks = pytest.importorskip("standardwebhooks")

pytestmark = pytest.mark.timeout(90)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Attempts follow each other at once."""
    monkeypatch.setattr(webhooks, "SCHEDULE_S", (0, *[0.05] * 4))


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
