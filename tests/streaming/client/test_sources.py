"""What a caller's own code raises while it feeds a call reaches the caller, as itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from rpcserving import served

from motet.streaming.client import AsyncClient, Client

pytestmark = pytest.mark.timeout(40)
RAW = {"encoding": "pcm_s16le", "rate_hz": 16_000}


async def test_a_source_that_fails_is_no_cancellation() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield bytes(3200)
        raise LookupError("the microphone is gone")

    async with served() as (address, _), AsyncClient(address) as client:
        with pytest.raises(LookupError, match="microphone"):
            [one async for one in client.recognize_stream(chunks(), **RAW)]
        assert "hear" in await client.models()


async def test_a_source_that_fails_tells_the_blocking_client_too() -> None:
    def chunks() -> Iterator[bytes]:
        yield bytes(3200)
        raise LookupError("the microphone is gone")

    def recognized(address: str) -> None:
        with Client(address) as client, pytest.raises(LookupError, match="microphone"):
            list(client.recognize_stream(chunks(), **RAW))

    async with served() as (address, _):
        await asyncio.to_thread(recognized, address)
