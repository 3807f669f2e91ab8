"""What tests of jobs share: pipelines of one fake component, uploads, waiting for a state."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest

from motet.pipelines import Graph, build
from motet.pipelines.spec import PipelineSpec


async def ended(http: httpx.AsyncClient, job_id: str, within_s: float = 30) -> dict[str, Any]:
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        job = (await http.get(f"/v1/jobs/{job_id}")).json()
        if job["state"] in ("completed", "failed", "cancelled"):
            return job
        await asyncio.sleep(0.05)
    pytest.fail(f"the job is still {job['state']}")


def graph(name: str, use: str, **options: Any) -> Graph:
    node = {"use": f"jobfakes:{use}", "options": options}
    spec = {"name": name, "nodes": {"work": node}, "edges": ["input -> work -> output"]}
    return build(PipelineSpec.model_validate(spec))


def upload(*texts: str, request: str = '{"pipeline": "slow"}') -> dict[str, Any]:
    files = [("file", (f"{n}.txt", text.encode())) for n, text in enumerate(texts)]
    return {"files": files, "data": {"request": request}}


async def running(http: httpx.AsyncClient, job_id: str, done: float = 1) -> dict[str, Any]:
    for _ in range(400):
        job = (await http.get(f"/v1/jobs/{job_id}?partial=true")).json()
        if job["state"] == "running" and job["progress"]["done"] >= done:
            return job
        await asyncio.sleep(0.05)
    pytest.fail(f"the job is still {job['state']}")
