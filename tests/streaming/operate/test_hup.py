"""SIGHUP: a reload, unless the terminal is gone or the signal is ignored."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import httpx
import pytest

from motet.streaming.bench.process import serving
from motet.streaming.operate import hup
from motet.streaming.operate.hup import Hangup

PIPELINE = """
name: chat
nodes: {llm: {use: "motet.streaming.bench.engines:Answer", options: {text: TEXT}}}
edges: [input -> llm -> output]
"""


@pytest.mark.slow
@pytest.mark.timeout(90)
async def test_a_server_reads_its_files_again_and_survives_faults_in_them(tmp_path: Path) -> None:
    file = tmp_path / "chat.yaml"
    file.write_text(PIPELINE.replace("TEXT", "Old."))
    async with (
        serving(str(file)) as (url, pid),
        httpx.AsyncClient(base_url=url.replace("ws", "http", 1), timeout=20) as http,
    ):

        async def said() -> str:
            body = {"model": "chat", "messages": [{"role": "user", "content": "?"}]}
            answer = (await http.post("/v1/chat/completions", json=body)).json()
            return answer["choices"][0]["message"]["content"].strip()

        async def until(text: str) -> None:
            async with asyncio.timeout(20):
                while await said() != text:  # noqa: ASYNC110 - another process' doing
                    await asyncio.sleep(0.05)

        assert await said() == "Old."
        file.write_text("nodes: [")
        os.kill(pid, signal.SIGHUP)
        assert (await http.get("/readyz")).status_code == 200
        file.write_text(PIPELINE.replace("TEXT", "New."))
        os.kill(pid, signal.SIGHUP)
        await until("New.")


async def test_signals_during_a_reload_lead_to_one_more() -> None:
    began, go_on, count = asyncio.Event(), asyncio.Event(), 0

    async def reload() -> None:
        nonlocal count
        count += 1
        began.set()
        await go_on.wait()

    hangup = Hangup(reload, lambda: None)
    hangup.watch()
    try:
        os.kill(os.getpid(), signal.SIGHUP)
        await began.wait()
        began.clear()
        for _ in range(5):
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0)
        go_on.set()
        await began.wait()
        assert count == 2
    finally:
        await hangup.close()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)


@pytest.mark.parametrize(
    ("had", "has", "leaves"), [(True, False, 1), (True, True, 0), (False, False, 0)]
)
async def test_a_terminal_that_is_gone_ends_the_server(
    monkeypatch: pytest.MonkeyPatch, had: bool, has: bool, leaves: int
) -> None:
    left: list[int] = []

    async def reload() -> None:
        return

    monkeypatch.setattr(hup, "has_terminal", lambda: had)
    hangup = Hangup(reload, lambda: left.append(1))
    hangup.watch()
    try:
        monkeypatch.setattr(hup, "has_terminal", lambda: has)
        hangup._on_signal()
        assert len(left) == leaves
    finally:
        await hangup.close()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)


async def test_an_ignored_signal_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        hangup = Hangup(lambda: pytest.fail("reloaded"), lambda: pytest.fail("left"))
        hangup.watch()
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        await hangup.close()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
