"""Clients as their makers ship them, each in a virtual environment of its own, made once.

Their pins of `websockets` differ from each other and from ours. The environments lie in
`$MOTET_TEST_CACHE` (else ~/.cache/motet-tests) and are made when they are first needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

CACHE = Path(os.environ.get("MOTET_TEST_CACHE") or Path.home() / ".cache" / "motet-tests")
REQUIREMENTS = {
    "openai-3.57.0": ["openai[realtime]==3.57.0"],
    "openai-2.54.0": ["openai[realtime]==2.54.0"],
    "openai-1.109.1": ["openai[realtime]==1.109.1"],
    "agents-0.24.0": ["openai-agents==0.24.0"],
    "livekit-1.8.9": ["livekit-plugins-openai==1.8.9"],
    "pipecat-1.14.0": ["pipecat-ai[openai,websocket]==1.14.0"],
}
QUESTION = "What is the capital of France?"

Run = Callable[..., Awaitable[dict[str, Any]]]


def python_of(name: str) -> Path:
    """The interpreter of a client's environment, made now if there is none."""
    folder = CACHE / "clients" / name
    python, made = folder / "bin" / "python", folder / "made"
    if not made.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "-q", *REQUIREMENTS[name]]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{name} can't be installed here: {done.stderr.strip()[-200:]}")
        made.touch()
    return python
