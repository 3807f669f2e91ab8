"""The child process that runs llama.cpp: `python -m motet.components.llm.llamaserver`.

llama.cpp holds the interpreter's lock while it loads and ends the whole process when an
assertion of its own fails; in a process apart neither touches a session. The parent writes one
line of JSON to stdin and reads one line with the address from stdout. The child ends when its
stdin closes, so it never outlives its parent, however that ends.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import xllamacpp


def build(settings: dict[str, Any]) -> Any:
    """Start the server; keys with a dot reach into a group (`cpuparams.n_threads`)."""
    engine: Any = xllamacpp  # a compiled module without stubs
    params = engine.CommonParams()
    for key, value in settings.items():
        *groups, name = key.split(".")
        target: Any = params
        for group in groups:
            target = getattr(target, group)
        setattr(target, name, value)
    return engine.Server(params)


def main() -> None:
    """Serve on 127.0.0.1 until stdin ends."""
    settings = json.loads(sys.stdin.readline())
    try:
        server = build(settings)
    except RuntimeError as error:
        sys.exit(str(error))
    sys.stdout.write(json.dumps({"address": server.listening_address}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    # Without this a request under way would keep the process until its answer is complete.
    os._exit(0)


if __name__ == "__main__":
    main()
