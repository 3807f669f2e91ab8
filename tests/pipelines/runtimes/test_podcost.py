"""The deletion cost of a pod, against an API server that checks who asks for what."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from motet.components.errors import MissingRequirement
from motet.pipelines.runtimes.podcost import PodCost


@dataclass
class Api:
    """What the fake API server is asked, and what it answers."""

    address: str = ""
    token: str = "first"
    status: int = 200
    asked: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    refused: int = 0


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    authority = trustme.CA()
    (tmp_path / "ca.crt").write_bytes(authority.cert_pem.bytes())
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "namespace").write_text("speech")
    seen = Api()

    class Handler(BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            allowed = self.headers["Authorization"] == f"Bearer {seen.token}"
            kind = self.headers["Content-Type"]
            status = seen.status if allowed else 401
            if kind != "application/merge-patch+json":
                status = 415
            if status == 200:
                seen.asked.append((self.path, json.loads(body)))
            else:
                seen.refused += 1
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    seen.address = f"https://127.0.0.1:{server.server_port}"
    yield seen
    server.shutdown()
    thread.join()
    server.server_close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is awaited is a thread's work
            await asyncio.sleep(0.01)


def cost_of(one: tuple[str, Any]) -> str:
    return one[1]["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"]


async def test_the_cost_follows_the_runs_and_is_told_when_it_changes_only(
    api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs, asked = 3, 0

    def count() -> int:
        nonlocal asked
        asked += 1
        return runs

    cost = PodCost("asr-1", address=api.address, account=tmp_path, period_s=0.01)
    task = asyncio.create_task(cost.run(count))
    await until(lambda: asked > 20)
    assert [one[0] for one in api.asked] == ["/api/v1/namespaces/speech/pods/asr-1"]
    assert cost_of(api.asked[0]) == "3"

    runs = 0
    await until(lambda: len(api.asked) == 2)
    assert cost_of(api.asked[1]) == "0"

    (tmp_path / "token").write_text("second")
    api.token, runs = "second", 1
    await until(lambda: len(api.asked) == 3)
    assert api.refused == 0, "the token that was renewed is the one that is shown"

    with caplog.at_level(logging.WARNING, "motet"):
        api.status, runs = 403, 7
        await until(lambda: api.refused > 3)
        assert [record.levelname for record in caplog.records] == ["WARNING"], "said once"
        api.status = 200
        await until(lambda: len(api.asked) == 4)
        assert cost_of(api.asked[3]) == "7"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_authority_that_is_not_the_clusters_gets_no_token(
    api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "ca.crt").write_bytes(trustme.CA().cert_pem.bytes())
    cost = PodCost("asr-1", address=api.address, account=tmp_path, period_s=0.01)
    with caplog.at_level(logging.WARNING, "motet"):
        task = asyncio.create_task(cost.run(lambda: 1))
        await until(lambda: bool(caplog.records))
    assert api.asked == []
    assert api.refused == 0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_outside_of_a_pod_it_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(MissingRequirement, match="KUBERNETES_SERVICE_HOST"):
        PodCost("asr-1", account=tmp_path)
    with pytest.raises(MissingRequirement, match="automountServiceAccountToken"):
        PodCost("asr-1", address="https://127.0.0.1", account=tmp_path)
