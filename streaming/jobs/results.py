"""Files that jobs make: in the data folder, one folder an attempt, removed with their job."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

from .store import Job

PREVIEW = "preview-"
Given = ParamSpec("Given")
Made = TypeVar("Made")


class Results:
    """The folder of results. Each attempt at a job writes into a folder of its own, so that a
    worker that was taken over spoils nothing; a completed job's files are those of its attempt.

    Workers of other machines must share it with the servers. All methods block on the disk.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, job: Job) -> Path:
        """An empty folder for this attempt; what earlier ones left goes."""
        self.forget(job)
        folder = self._of(job)
        folder.mkdir(parents=True)
        return folder

    def path(self, job: Job, name: str) -> Path | None:
        """A file of a completed job by its name; None if it has no such file."""
        if name not in names(job):
            return None
        path = self._of(job) / name
        return path if path.is_file() else None

    def previews(self, job: Job) -> list[Path]:
        """What this attempt has shown so far of a clip that it makes, the oldest first."""
        return sorted(self._of(job).glob(f"{PREVIEW}*.webp"))

    def drop(self, job: Job) -> None:
        """Remove what this attempt made; those of others stay."""
        shutil.rmtree(self._of(job), ignore_errors=True)
        with suppress(OSError):  # another attempt's files are there, or none ever were
            self._of(job).parent.rmdir()

    def forget(self, job: Job) -> None:
        """Remove everything that the job made."""
        shutil.rmtree(self._of(job).parent, ignore_errors=True)

    def _of(self, job: Job) -> Path:
        return self._folder / Path(job.id).name / str(job.attempt)


def names(job: Job) -> list[str]:
    """The files of a job's result, the main one first."""
    files = (job.result or {}).get("files", [])
    return [file["name"] for file in files]


async def threaded(
    function: Callable[Given, Made], *args: Given.args, **options: Given.kwargs
) -> Made:
    """Run in a thread; a cancellation waits until the thread is done, so that nothing is written
    after it."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *args, **options))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
