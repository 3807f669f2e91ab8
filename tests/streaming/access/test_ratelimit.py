"""Limits of a key: a burst of a minute's requests, then as the minute refills."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.access.keyfile import add_key
from motet.streaming.access.ratelimit import RateLimited, RateLimiter
from motet.streaming.app import create_app
from motet.streaming.server import Server
from motet.streaming.settings import Settings


@given(st.integers(1, 600), st.lists(st.floats(0, 20), min_size=1, max_size=60))
def test_no_minute_sees_more_than_two_minutes_worth(per_minute: int, waits: list[float]) -> None:
    limiter, now_s, taken = RateLimiter(), 0.0, []
    for wait_s in waits * 5:
        now_s += wait_s
        try:
            limiter.take("key", per_minute, now_s)
        except RateLimited as error:
            now_s += (error.retry_after_s or 0) + 1e-6
            limiter.take("key", per_minute, now_s)
        taken.append(now_s)
    for start_s in taken:
        inside = [at for at in taken if start_s <= at <= start_s + 60]
        assert len(inside) <= 2 * per_minute + 1


def test_keys_do_not_share_and_none_is_no_limit() -> None:
    limiter = RateLimiter()
    limiter.take("a", 1, 0.0)
    limiter.take("b", 1, 0.0)
    for _ in range(1000):
        limiter.take("c", None, 0.0)
    with pytest.raises(RateLimited, match="1 requests a minute"):
        limiter.take("a", 1, 1.0)


async def test_a_request_too_many_is_a_429_that_says_when(tmp_path: Path) -> None:
    spec = {"name": "e", "nodes": {"a": {"use": "fakes:Echo"}}, "edges": ["input -> a -> output"]}
    key = add_key(tmp_path / "keys", "slow", {"requests_per_minute": 2})
    graph = build(PipelineSpec.model_validate(spec))
    server = Server.make([graph], Settings(keys_file=tmp_path / "keys"))
    transport = httpx.ASGITransport(create_app(server), raise_app_exceptions=False)
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        answers = [await http.get("/v1/models", headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert int(answers[2].headers["retry-after"]) >= 1
    assert answers[2].json()["error"]["code"] == "rate_limited"
