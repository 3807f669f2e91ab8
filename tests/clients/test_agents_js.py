"""@openai/agents-realtime, unmodified, under Node: the browser's agent with a URL of ours."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from clients import CACHE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not shutil.which("npm"), reason="npm isn't installed"),
]
PACKAGE = "@openai/agents-realtime@0.20.0"
SCRIPT = Path(__file__).parent / "agents_talk.mjs"


def modules() -> Path:
    """The folder that the package is installed in, made once."""
    folder = CACHE / "clients" / "agents-js-0.20.0"
    if not (folder / "made").exists():
        folder.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund", PACKAGE]
        done = subprocess.run(install, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{PACKAGE} can't be installed here: {done.stderr.strip()[-200:]}")
        (folder / "made").touch()
    return folder


async def test_a_browsers_agent_uses_its_tool_in_writing_and_by_voice(
    tools: str, question: Path
) -> None:
    folder = await asyncio.to_thread(modules)
    process = await asyncio.create_subprocess_exec(
        "node", str(SCRIPT), tools, str(question), str(folder), stdout=subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 90)
    assert process.returncode == 0
    seen = json.loads(out)
    assert seen["errors"] == []
    assert seen["calls"] == ["Oslo", "Oslo"]
    assert seen["audioBytes"] > 48_000
    last = seen["history"][-1]["content"][0]["transcript"]
    assert last.strip() == "The answer is sunny in Oslo."
