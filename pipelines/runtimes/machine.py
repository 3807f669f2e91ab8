"""What the worker processes of one parent share on this machine."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

from ...components.wire.folders import OwnedFolder
from .devices import Devices


class Machine:
    """What the workers of all versions share: cores, GPUs, numbers, the folder of their sockets,
    which goes with its last user."""

    def __init__(self, cores: float, gpus: tuple[str, ...]) -> None:
        self.cores = cores
        self.devices = Devices(gpus)
        self.numbers = itertools.count(1)
        self.folder = OwnedFolder("motet-workers-", Path(tempfile.gettempdir()))
        self.users = 0

    def release(self) -> None:
        """One runtime less is on it."""
        self.users -= 1
        self.sweep()

    def sweep(self) -> None:
        """Remove the folder if nobody uses it. Idempotent."""
        if not self.users:
            self.folder.close()
