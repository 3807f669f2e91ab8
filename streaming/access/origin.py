"""Which web pages may use this server: a browser names the origin of the page that asks."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from ..settings import Settings


def origin_allowed(headers: Mapping[str, str], settings: Settings) -> bool:
    """Whether a browser's page may use this server: its own pages, and the origins it names.

    Programs send no Origin and are let through; without keys, this is what keeps a foreign web
    page from talking to a server on its visitor's machine, also under a rebound name.
    """
    origin = headers.get("origin")
    host = headers.get("host", "")
    if settings.is_loopback and not loopback_name(host):
        return False
    if origin is None or origin in settings.allow_origins or "*" in settings.allow_origins:
        return True
    return _split(origin).netloc == host


def loopback_name(host: str) -> bool:
    """Whether a Host header names this machine, as a name or as an address; a name that begins
    like an address (127.example.com) is anybody's."""
    name = _split(f"//{host}").hostname if host else "localhost"
    if name in ("localhost", "testserver"):
        return True
    try:
        return ipaddress.ip_address(name or "").is_loopback
    except ValueError:
        return False


def _split(url: str) -> SplitResult:
    """The parts of a URL, none where it is no URL."""
    try:
        return urlsplit(url)
    except ValueError:
        return SplitResult("", "", "", "", "")
