"""A running server as commands reach it: its address, a key, and one request."""

from __future__ import annotations

import argparse
import os
from typing import Any

import httpx

from ...components.errors import ComponentFailed, error_of


def add_address(command: argparse.ArgumentParser) -> None:
    """The arguments that say where the server is, and who asks."""
    command.add_argument("--url", default="http://127.0.0.1:8000")
    command.add_argument("--key", default=os.environ.get("MOTET_API_KEY"), help="API key")


def ask(
    parsed: argparse.Namespace,
    path: str,
    *,
    method: str = "GET",
    body: dict[str, Any] | None = None,
    timeout_s: float | None = 10.0,
) -> Any:
    """The server's answer; `timeout_s` None waits as long as it takes.

    Raises:
        MotetError: what the server says instead, with its code.
        ComponentFailed: it can't be reached.
    """
    url = parsed.url.rstrip("/")
    headers = {"Authorization": f"Bearer {parsed.key}"} if parsed.key else {}
    try:
        answer = httpx.request(method, url + path, headers=headers, json=body, timeout=timeout_s)
    except httpx.HTTPError as error:
        raise ComponentFailed(f"no server answers: {error}; see --url", where=url) from error
    if answer.is_error:
        raise refusal(answer, url)
    return answer.json()


def refusal(answer: httpx.Response, url: str) -> Exception:
    """What a server's error stands for."""
    try:
        error = answer.json()["error"]
        return error_of(str(error["code"]), str(error["message"]))
    except (ValueError, KeyError, TypeError):
        return ComponentFailed(f"HTTP {answer.status_code}: {answer.text[:200]}", where=url)
