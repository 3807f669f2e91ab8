"""Which web pages may use this server: a browser names the origin of the page that asks."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from .settings import Settings


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
    return urlsplit(origin).netloc == host


def loopback_name(host: str) -> bool:
    """Whether a Host header names this machine."""
    name = urlsplit(f"//{host}").hostname or ""
    return name in {"localhost", "::1", ""} or name.startswith("127.") or name == "testserver"
