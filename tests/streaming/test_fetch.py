"""The guard of URLs: hostile forms reach nothing, limits hold, what isn't whole is removed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from motet.components.errors import BadInput
from motet.streaming.fetch import TooLarge, check_url, fetch_bytes, fetch_file

HOSTILE = [
    "https://127.0.0.1:{port}/",
    "https://localhost:{port}/",
    "https://[::1]:{port}/",
    "https://0.0.0.0:{port}/",
    "https://2130706433:{port}/",
    "https://0x7f000001:{port}/",
    "https://127.1:{port}/",
    "https://[::ffff:127.0.0.1]:{port}/",
    "https://[64:ff9b::7f00:1]:{port}/",
    "https://169.254.169.254/latest/meta-data",
    "https://10.0.0.1:{port}/",
    "https://100.64.0.1:{port}/",
]


class Local:
    """A server on loopback that counts the requests it reads."""

    def __init__(self) -> None:
        self.requests = 0
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.read(4096)
        if head:
            self.requests += 1
            status = b"302 Found\r\nLocation: http://127.0.0.1/x" if b"/away" in head else b"200 OK"
            body = b"x" * 1000
            writer.write(b"HTTP/1.1 %s\r\nContent-Length: 1000\r\n\r\n%s" % (status, body))
        writer.close()


@pytest.fixture
async def local() -> AsyncIterator[Local]:
    local = Local()
    server = await asyncio.start_server(local.answer, "127.0.0.1", 0)
    local.port = server.sockets[0].getsockname()[1]
    async with server:
        yield local


@pytest.mark.parametrize("form", HOSTILE)
async def test_hostile_addresses_get_no_request(form: str, local: Local) -> None:
    with pytest.raises(BadInput):
        await fetch_bytes(form.format(port=local.port), limit_bytes=10_000, allow_loopback=False)
    assert local.requests == 0


@pytest.mark.parametrize(
    "url",
    ["http://example.org/", "file:///etc/passwd", "https://", "x", "https://a:b@example.org/"],
)
def test_forms_that_are_never_called(url: str) -> None:
    with pytest.raises(BadInput):
        check_url(url, allow_loopback=False)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://localhost:8000/hook",
            "https://127.0.0.1/hook",
            "http://127.8.9.10",
            "https://[::1]",
        ),
        *(
            "http://LOCALHOST./",
            "https://a.localhost",
            "https://[::ffff:127.0.0.1]",
            "http://0.0.0.0",
        ),
    ],
)
def test_whoever_names_this_machine_is_told_how_to_allow_it(url: str) -> None:
    with pytest.raises(BadInput, match="--allow-loopback-urls") as refused:
        check_url(url, allow_loopback=False, param="webhook")
    assert refused.value.param == "webhook"
    assert check_url(url, allow_loopback=True)


@pytest.mark.parametrize("allow", [False, True])
@pytest.mark.parametrize(
    "host",
    ["10.0.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "[fd00::1]", "[::ffff:10.0.0.1]"],
)
def test_an_address_that_is_not_public_is_refused_before_it_is_called(
    host: str, allow: bool
) -> None:
    with pytest.raises(BadInput, match="the address is not a public one"):
        check_url(f"https://{host}/hook", allow_loopback=allow)
    assert check_url("https://93.184.215.14/hook", allow_loopback=allow)


async def test_a_name_that_leads_to_this_machine_says_so_when_it_is_called(local: Local) -> None:
    url = f"https://2130706433:{local.port}/"
    assert check_url(url, allow_loopback=False), "no form that one sees it by"
    with pytest.raises(BadInput, match=r"not a public one .*--allow-loopback-urls"):
        await fetch_bytes(url, limit_bytes=10_000, allow_loopback=False)
    assert local.requests == 0


async def test_development_reaches_this_machine(local: Local, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{local.port}/"
    body = await fetch_bytes(url, limit_bytes=1000, allow_loopback=True)
    assert body == b"x" * 1000
    assert await fetch_file(url, tmp_path / "a", limit_bytes=1000, allow_loopback=True) == 1000


async def test_limits_hold_and_nothing_is_left(local: Local, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{local.port}/"
    with pytest.raises(TooLarge, match="more than 999"):
        await fetch_file(url, tmp_path / "a", limit_bytes=999, allow_loopback=True)
    assert list(tmp_path.iterdir()) == []


async def test_redirects_are_not_followed(local: Local) -> None:
    url = f"http://127.0.0.1:{local.port}/away"
    with pytest.raises(BadInput, match="answered 302"):
        await fetch_bytes(url, limit_bytes=1000, allow_loopback=True)
    assert local.requests == 1
