"""The server process: it drains at SIGTERM, and what it can't serve it says before it listens."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import socket
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from motet.streaming.bench.process import serving
from motet.streaming.cli import main

pytestmark = pytest.mark.slow

QUIET = """
name: quiet
nodes:
  vad: {use: vad/silero}
  turn: {use: turn/silence}
  asr: {use: "motet.streaming.bench.engines:Hear"}
  llm: {use: "motet.streaming.bench.engines:Answer", options: {delay_s: 1.5}}
  tts: {use: "motet.streaming.bench.engines:Say"}
edges:
  - input -> vad -> turn -> asr -> conversation
  - turn -> conversation: [SpeechStarted, SpeechPaused, SpeechStopped]
  - conversation -> llm -> tts -> conversation
  - llm -> conversation
conversation: {}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> str:
    file = tmp_path / "quiet.yaml"
    file.write_text(QUIET)
    return str(file)


def ask() -> list[str]:
    content = [{"type": "input_text", "text": "hello"}]
    item = {"type": "message", "role": "user", "content": content}
    events = [{"type": "conversation.item.create", "item": item}, {"type": "response.create"}]
    return [json.dumps(event) for event in events]


async def test_sigterm_lets_a_running_answer_end_and_takes_no_new_call(pipeline: str) -> None:
    async with serving(pipeline) as (url, pid):
        async with connect(f"{url}/v1/realtime") as socket:
            await socket.recv()
            for event in ask():
                await socket.send(event)
            while json.loads(await socket.recv())["type"] != "response.created":
                pass
            os.kill(pid, signal.SIGTERM)
            await asyncio.sleep(0.3)
            async with httpx.AsyncClient(base_url=url.replace("ws", "http", 1)) as http:
                assert (await http.get("/readyz")).status_code == 503
                assert (await http.get("/healthz")).status_code == 200
            async with connect(f"{url}/v1/realtime") as late:
                assert json.loads(await late.recv())["error"]["code"] == "overloaded"
                with pytest.raises(ConnectionClosed):
                    await late.recv()
                assert late.close_code == 1013
            done = json.loads(await socket.recv())
            while done["type"] != "response.done":
                done = json.loads(await socket.recv())
            assert done["response"]["status"] == "completed"
        for _ in range(100):
            if (
                not Path(f"/proc/{pid}/cmdline").exists()
                or not Path(f"/proc/{pid}/cmdline").read_bytes()
            ):
                break
            await asyncio.sleep(0.05)
        else:
            pytest.fail("the server didn't end when its last session had")


async def test_what_outlives_the_grace_is_told_to_come_back(pipeline: str) -> None:
    async with (
        serving(pipeline, "--shutdown-grace-s", "0.5") as (url, pid),
        connect(f"{url}/v1/realtime") as socket,
    ):
        await socket.recv()
        os.kill(pid, signal.SIGTERM)
        with pytest.raises(ConnectionClosed):
            async with asyncio.timeout(10):
                while True:
                    await socket.recv()
        assert socket.close_code == 1012


def run(*arguments: str) -> tuple[int, str, str]:
    """A command's status, and what it says and complains; within this process, where modules are
    loaded already."""
    with redirect_stdout(StringIO()) as said, redirect_stderr(StringIO()) as complained:
        try:
            main(arguments)
        except SystemExit as ended:
            status = ended.code
    assert isinstance(status, int)
    return status, said.getvalue(), complained.getvalue()


def test_beyond_loopback_without_a_key_it_says_how_to_make_one(pipeline: str) -> None:
    status, _, complained = run("serve", pipeline, "--host", "0.0.0.0")
    assert status == 2
    assert "motet keys add" in complained


@pytest.mark.parametrize("flag", ["--port", "--grpc-port"])
def test_a_taken_port_is_told_before_anything_loads(
    pipeline: str, flag: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, _, complained = run("serve", pipeline, "--port", "0", flag, port)
    assert status == 2
    assert f"{flag}: can't listen at port {port}" in complained
    assert "loading" not in caplog.text


def test_check_tells_every_fault_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("name: x\nnodes:\n  a: {use: llm/lama}\n  b: {use: tts/hibary}\nedges: []\n")
    status, said, _ = run("check", str(file))
    assert status == 1
    assert f"{file}:3: nodes.a.use: 'llm/lama' is unknown; did you mean 'llm/llama'?" in said
    assert f"{file}:4: nodes.b.use: 'tts/hibary' is unknown" in said


def test_keys_are_made_listed_and_removed(tmp_path: Path) -> None:
    file = str(tmp_path / "keys.json")
    status, key, _ = run("keys", "add", "alice", "--keys-file", file)
    assert status == 0
    assert key.startswith("mk-")
    assert run("keys", "list", "--keys-file", file) == (0, "alice\n", "")
    assert run("keys", "remove", "alice", "--keys-file", file)[0] == 0
    assert run("keys", "add", "--keys-file", file)[0] == 2
    run("keys", "add", "bob", "--max-jobs", "0", "--admin", "--keys-file", file)
    assert run("keys", "list", "--keys-file", file)[1] == "bob (max_jobs 0, admin)\n"
    assert run("keys", "list", "--admin", "--keys-file", file)[0] == 2
    assert run("keys", "add", "eve", "--max-jobs", "-1", "--keys-file", file)[0] == 2


async def test_status_shows_nodes_and_says_when_nobody_answers(pipeline: str) -> None:
    async with serving(pipeline) as (url, _):
        address = url.replace("ws", "http", 1)
        status, said, _ = await asyncio.to_thread(run, "status", "--url", address)
        assert status == 0
        assert "quiet: ready, 0 of 64 sessions" in said
        assert re.search(r"vad +vad/silero +1/1 +0/256", said)
    status, _, complained = await asyncio.to_thread(run, "status", "--url", address)
    assert status == 2
    assert "no server answers" in complained
