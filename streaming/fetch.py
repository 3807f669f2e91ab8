"""The one guard for URLs that users give: inputs to fetch and webhooks to call alike.

Names are resolved, checked and connected to as one step (httpx-secure), so that a name that
answers differently the second time reaches nothing; there are no redirects and no proxies.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import httpx
from httpx_secure import SSRFProtectionError, httpx_ssrf_protection

from ..components.errors import BadInput, MotetError

CHUNK_BYTES = 256 * 1024
HERE = "for development, `motet serve --allow-loopback-urls` lets URLs point there"
NOT_PUBLIC = f"its address is not a public one (if it is this machine's: {HERE})"


class TooLarge(MotetError):
    """A body is over its limit."""

    code = "too_large"


def global_or_loopback(hostname: str, address: IPv4Address | IPv6Address, port: int) -> bool:
    """The addresses that development allows."""
    del hostname, port
    return address.is_global or address.is_loopback


@cache
def _trusted() -> ssl.SSLContext:
    """The certificates that are trusted, read once: that takes longer than a request."""
    return httpx.create_ssl_context(trust_env=False)


def guarded(*, allow_loopback: bool, timeout_s: float = 30.0) -> httpx.AsyncClient:
    """A client that reaches public addresses only (and this machine where `allow_loopback`)."""
    client = httpx.AsyncClient(
        verify=_trusted(), timeout=timeout_s, follow_redirects=False, trust_env=False
    )
    if allow_loopback:
        return httpx_ssrf_protection(
            client, check_globally_reachable=False, custom_validator=global_or_loopback
        )
    return httpx_ssrf_protection(client)


def literal(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is written as, None for names."""
    try:
        address = ip_address(host.rstrip("."))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def is_here(host: str) -> bool:
    """Whether a host is this machine by its very name; what a name leads to is seen at the call."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = literal(name)
    return address is not None and (address.is_loopback or address.is_unspecified)


def check_url(url: str, *, allow_loopback: bool, param: str = "url") -> httpx.URL:
    """The URL, if its form is one that is ever called; where a name leads is seen at the call.

    Raises:
        BadInput: not https (http only where loopback is allowed), no host, this machine though that
            isn't allowed, an address that isn't public, or with credentials.
    """
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise BadInput(f"{url!r:.200} is no URL: {error}", where=param, param=param) from error
    if is_here(parsed.host) and not allow_loopback:
        raise BadInput(f"{url!r:.200} is this machine; {HERE}", where=param, param=param)
    address = literal(parsed.host)
    if address is not None and not (address.is_global or is_here(parsed.host)):
        raise BadInput(f"{url!r:.200}: the address is not a public one", where=param, param=param)
    schemes = ("https", "http") if allow_loopback else ("https",)
    if parsed.scheme not in schemes or not parsed.host:
        raise BadInput(
            f"a URL with scheme {' or '.join(schemes)} and a host is needed, got {url!r:.200}",
            where=param,
            param=param,
        )
    if parsed.userinfo:
        raise BadInput("a URL can't carry a user or password here", where=param, param=param)
    return parsed


@asynccontextmanager
async def opened(
    url: str, *, limit_bytes: int, allow_loopback: bool, param: str = "url"
) -> AsyncGenerator[AsyncGenerator[bytes]]:
    """The body of a URL as it comes, at most `limit_bytes` of it.

    Raises:
        BadInput: the URL isn't allowed, can't be reached, or doesn't answer 200.
        TooLarge: the body is over the limit.
    """
    parsed = check_url(url, allow_loopback=allow_loopback, param=param)
    where = f"{param} at {parsed.host}"
    try:
        async with (
            guarded(allow_loopback=allow_loopback) as client,
            client.stream("GET", parsed) as response,
        ):
            if response.status_code != 200:
                raise BadInput(f"it answered {response.status_code}", where=where, param=param)
            yield limited(response, limit_bytes, where)
    except SSRFProtectionError as error:
        raise BadInput(NOT_PUBLIC, where=where, param=param) from error
    except httpx.HTTPError as error:
        message = f"it can't be fetched: {type(error).__name__}"
        raise BadInput(message, where=where, param=param) from error


async def limited(response: httpx.Response, limit_bytes: int, where: str) -> AsyncGenerator[bytes]:
    """The chunks of a response until it passes the limit."""
    total = 0
    async for chunk in response.aiter_bytes(CHUNK_BYTES):
        total += len(chunk)
        if total > limit_bytes:
            raise TooLarge(f"it holds more than {limit_bytes} bytes", where=where)
        yield chunk


async def fetch_bytes(
    url: str, *, limit_bytes: int, allow_loopback: bool, param: str = "url"
) -> bytes:
    """A whole body in memory; see `opened`."""
    whole = bytearray()
    async with opened(
        url, limit_bytes=limit_bytes, allow_loopback=allow_loopback, param=param
    ) as chunks:
        async for chunk in chunks:
            whole += chunk
    return bytes(whole)


async def fetch_file(
    url: str, path: Path, *, limit_bytes: int, allow_loopback: bool, param: str = "url"
) -> int:
    """A body into a new file; its size in bytes. A file that isn't whole is removed."""
    size = 0
    try:
        with path.open("xb") as file:
            async with opened(
                url, limit_bytes=limit_bytes, allow_loopback=allow_loopback, param=param
            ) as chunks:
                async for chunk in chunks:
                    size += file.write(chunk)
    except BaseException:
        await asyncio.to_thread(path.unlink, missing_ok=True)
        raise
    return size
