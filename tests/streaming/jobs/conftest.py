"""A server of jobs, and a receiver of its webhooks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from fastapi import Response
from hookclients import Receiver
from jobclients import client_of
from serving import listening

from motet.streaming.jobs import webhooks


@pytest.fixture
async def http(postgres, tmp_path) -> AsyncIterator[httpx.AsyncClient]:
    (tmp_path / "in").mkdir()
    async with client_of(postgres, tmp_path, input_dir=tmp_path / "in") as client:
        yield client


@pytest.fixture
def quick_attempts(monkeypatch) -> None:
    """The attempts of a delivery follow each other at once."""
    monkeypatch.setattr(webhooks, "SCHEDULE_S", (0, *[0.05] * 4))


@pytest.fixture(scope="module")
def receiver_app() -> Iterator[tuple[Receiver, str]]:
    receiver = Receiver()
    with listening(receiver.app) as address:
        yield receiver, address.replace("localhost", "127.0.0.1") + "/hook"


@pytest.fixture
def receiver(receiver_app) -> tuple[Receiver, str]:
    made, url = receiver_app
    made.got.clear()
    made.answer = lambda attempt: Response()
    made.delay_s = 0.0
    return made, url
