"""Durable pictures and clips for doors of other shapes than `/v1/jobs`."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from ...pipelines.pipeline import Pipeline
from ..access.auth import Principal
from .prompts import Asked
from .requests import DAY_S
from .service import Jobs
from .store import Job
from .taking import prompted, put


async def generate(
    jobs: Jobs,
    asker: Principal,
    pipeline: Pipeline,
    asked: Asked,
    *,
    image: bytes | None = None,
    prefix: str = "job",
    notes: Mapping[str, str] | None = None,
    retention_s: float = DAY_S,
) -> Job:
    """Queue pictures or a clip as a durable job.

    It survives restarts of everything, is tried again, and webhooks hear of its end. Its id is
    `prefix` and a random part; `notes` are kept as `job.input["notes"]`. Then:

    - `await jobs.store.get(job.id, owner)` is how it stands: `state` "queued", "running",
      "completed", "failed" or "cancelled"; `done` of `total` steps; `error` {code, message};
      `created_at`, `finished_at`, `expires_at`; `input["prompt"]`, and `options` as asked;
      `result["files"]` once completed, each {name, media_type, bytes, index, meta}, the main ones
      with `width` and `height`, a clip also with `frames`, `fps` and `seconds`.
    - A clip's files are "0.mp4", "0-thumbnail.webp" and "0-spritesheet.jpg", pictures "0.png",
      "1.png" … or as their `output_format` says. `jobs.results.path(job, name)` is the file, None
      where there is none (it blocks on the disk).
    - `await jobs.store.many(owner, ids=None, state=None, after=None, limit=n, pipelines=[…])` lists
      them, the newest first; `after` is an id.
    - `await jobs.delete(job_id, owner)` removes it with its files, stopping it where it runs;
      None: there is no such job of that owner.

    Raises:
        BadInput: the picture came twice, or is none.
    """
    source = prompted(asked, image, notes)
    job_id = f"{prefix}_{secrets.token_hex(12)}"
    async with jobs.database.connection() as connection:
        (job,) = await put(
            connection,
            jobs.inputs,
            asker,
            [job_id],
            [source],
            pipeline=pipeline.name,
            priority=asker.priority,
            metadata={},
            webhook=None,
            retention_s=retention_s,
        )
    return job
