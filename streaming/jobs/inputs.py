"""Where a job's file comes from: an upload, an https URL, or a path under a configured folder."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from ...components.errors import BadInput
from ..fetch import check_url, fetch_file
from .store import Job, Json


class Inputs:
    """The folder of uploaded and fetched files, and the rules for the others."""

    def __init__(
        self, folder: Path, *, input_dir: Path | None, limit_bytes: int, allow_loopback: bool
    ) -> None:
        self.folder = folder
        self._input_dir = input_dir.resolve() if input_dir else None
        self._limit_bytes = limit_bytes
        self._allow_loopback = allow_loopback

    def adopt(self, upload: Path) -> str:
        """Make an uploaded file a job's own; the name it is kept under. Blocks."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = secrets.token_hex(16)
        upload.replace(self.folder / name)
        return name

    def keep(self, data: bytes) -> str:
        """Keep bytes as a job's own file; the name it is kept under. Blocks."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = secrets.token_hex(16)
        (self.folder / name).write_bytes(data)
        return name

    def check_path(self, given: str) -> None:
        """Refuse a path that leaves the configured folder.

        Raises:
            BadInput: no folder is configured, the path leads out of it, or there is no such file.
        """
        self._allowed(given)

    def check_url(self, url: str, param: str = "url") -> None:
        """Refuse a URL that would never be called. Raises `BadInput`."""
        check_url(url, allow_loopback=self._allow_loopback, param=param)

    def _allowed(self, given: str) -> Path:
        if self._input_dir is None:
            raise BadInput("paths need a folder: set MOTET_INPUT_DIR", param="path")
        try:
            path = (self._input_dir / given).resolve(strict=True)
        except (OSError, ValueError) as error:
            raise BadInput(f"{given!r} isn't in the input folder", param="path") from error
        if not path.is_relative_to(self._input_dir) or not path.is_file():
            raise BadInput(f"{given!r} isn't in the input folder", param="path")
        return path

    @asynccontextmanager
    async def ready(self, job: Job) -> AsyncGenerator[Path | None]:
        """The file of a job while it runs, None if it has none; what was fetched goes again.

        Raises:
            BadInput: it is gone, or can't be fetched.
        """
        source = job.input
        if "upload" in source:
            path = self.folder / Path(source["upload"]).name
            if not await asyncio.to_thread(path.is_file):
                raise BadInput("the uploaded file is gone", param="file")
            yield path
        elif "path" in source:
            yield await asyncio.to_thread(self._allowed, source["path"])
        elif "url" in source:
            path = self.folder / f"fetched-{secrets.token_hex(16)}"
            await asyncio.to_thread(self.folder.mkdir, parents=True, exist_ok=True)
            await fetch_file(
                source["url"],
                path,
                limit_bytes=self._limit_bytes,
                allow_loopback=self._allow_loopback,
            )
            try:
                yield path
            finally:
                await asyncio.to_thread(path.unlink, missing_ok=True)
        else:
            yield None

    def forget(self, source: Json) -> None:
        """Remove the upload of a job's input. Blocks."""
        if "upload" in source:
            (self.folder / Path(source["upload"]).name).unlink(missing_ok=True)

    def space_bytes(self) -> int:
        """Free bytes where uploads are kept."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return shutil.disk_usage(self.folder).free
