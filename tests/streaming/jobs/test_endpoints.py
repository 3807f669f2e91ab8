"""Who hears of jobs: endpoints, their secrets and events, URLs of single requests, the guard."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("procrastinate")

from hookclients import deliveries, job, server

from motet.streaming.jobs import webhooks

standardwebhooks = pytest.importorskip("standardwebhooks")

pytestmark = [pytest.mark.timeout(90), pytest.mark.usefixtures("quick_attempts")]


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
