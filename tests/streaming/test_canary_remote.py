"""A canary of one component of a gateway, as an operator runs it: nodes, server and commands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from nodeprocess import node
from ports import HOST, free_port
from serving import serving

from motet.pipelines import load
from motet.streaming.cli import main

pytestmark = [pytest.mark.timeout(120), pytest.mark.slow]
ENGINES = "motet.streaming.bench.engines"


def write(path: Path, text: str) -> Path:
    llm = {"use": f"{ENGINES}:Answer", "options": {"text": text}}
    spec = {"name": "talk", "nodes": {"llm": llm}, "edges": ["input -> llm -> output"]}
    path.write_text(yaml.safe_dump(spec))
    return path


async def said(http: httpx.AsyncClient) -> str:
    body = {"model": "talk", "messages": [{"role": "user", "content": "?"}]}
    answer = (await http.post("/v1/chat/completions", json=body)).raise_for_status()
    return answer.json()["choices"][0]["message"]["content"].strip()


async def until_said(http: httpx.AsyncClient, text: str) -> None:
    async with asyncio.timeout(40):
        while await said(http) != text:  # noqa: ASYNC110 - another process' doing
            await asyncio.sleep(0.1)


async def test_a_component_is_tried_beside_the_old_one_and_takes_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = write(tmp_path / "talk.yaml", "Old."), write(tmp_path / "new.yaml", "New.")
    place, beside = (f"{HOST}:{free_port()}" for _ in range(2))

    async def canary(action: str, *more: str) -> object:
        command = ["canary", action, "talk", *more, "--url", http.base_url.netloc.decode()]
        with pytest.raises(SystemExit) as ended:
            await asyncio.to_thread(main, command)
        return ended.value.code

    async def start(*targets: str) -> object:
        return await canary("start", "--file", new.name, "--share", "100%", *targets)

    settings: dict[str, Any] = {"runtime": "remote", "targets": (f"llm={place}",)}
    async with node(old, "llm", place):
        with serving(load(str(old)), data_dir=tmp_path, **settings) as at:
            async with httpx.AsyncClient(base_url=at, timeout=30) as http:
                assert await said(http) == "Old."
                assert await start() != 0
                assert "motet canary start talk --targets llm=HOST:PORT" in capsys.readouterr().err
                assert await start("--targets", f"llm={place}") != 0
                assert "the pipeline file says" in capsys.readouterr().err
                async with node(new, "llm", beside):
                    assert await start("--targets", f"llm={beside}") == 0
                    assert await said(http) == "New."
                    metrics = (await http.get("/metrics")).text
                    assert f'pipeline="talk",target="{beside}",version="2"}}' in metrics
                    assert await canary("share", "--share", "0") == 0
                    assert await said(http) == "Old."
                    assert await canary("share", "--share", "1") == 0
                await until_said(http, "Old.")
                async with node(new, "llm", beside):
                    await until_said(http, "New.")
                    assert await canary("promote") == 0
                    assert await said(http) == "New."
