"""A running server as commands reach it: its address, a key, and one request."""

from __future__ import annotations

import argparse
import os
from typing import Any
from urllib.parse import urlsplit

import httpx

from ...components.errors import ComponentFailed, error_of


def add_address(command: argparse.ArgumentParser) -> None:
    """The arguments that say where the server is, and who asks."""
    command.add_argument(
        "--url",
        type=address,
        default="http://127.0.0.1:8000",
        help="address of the server (http://127.0.0.1:8000)",
    )
    command.add_argument(
        "--key", default=os.environ.get("MOTET_API_KEY"), help="API key (or MOTET_API_KEY)"
    )


def address(text: str) -> str:
    """A server's address as people write it: HOST:PORT, a URL, one that ends in / or /v1; a path is
    kept, for servers behind a proxy.

    Raises:
        ArgumentTypeError: it is none.
    """
    possible = "possible: HOST:PORT, http://HOST:PORT, https://HOST/PATH"
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no address: {error}; {possible}") from None
    if not good or parts.query or parts.fragment:
        raise argparse.ArgumentTypeError(f"{text!r} is no address of a server; {possible}")
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


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
    url = parsed.url
    headers = {"Authorization": f"Bearer {parsed.key}"} if parsed.key else {}
    try:
        answer = httpx.request(method, url + path, headers=headers, json=body, timeout=timeout_s)
    except httpx.HTTPError as error:
        raise ComponentFailed(f"no server answers: {error}; see --url", where=url) from error
    if answer.is_error:
        raise refusal(answer, url, key=bool(parsed.key))
    return answer.json()


def refusal(answer: httpx.Response, url: str, *, key: bool) -> Exception:
    """What a server's error stands for, to somebody who gave it a key or didn't."""
    if answer.status_code == 401 and not key:
        return error_of("invalid_api_key", f"{url} needs a key: --key KEY, or MOTET_API_KEY")
    try:
        error = answer.json()["error"]
        return error_of(str(error["code"]), str(error["message"]))
    except (ValueError, KeyError, TypeError):
        return ComponentFailed(f"HTTP {answer.status_code}: {answer.text[:200]}", where=url)
