"""The Ray cluster that the versions of a pipeline share, and the Serve application of one node."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import Any

from ...components.base import Setup
from ...components.errors import ComponentFailed
from ..graph import Node
from .mux import MutualTls
from .rayapi import ray, serve
from .raydeploy import options
from .rayreplica import Replica


class Cluster:
    """Joined at `address`, or started here and then ended with its last user. Its methods block."""

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._own = False
        self.users = 0

    def join(self) -> None:
        """Be part of it, with Serve running."""
        if not ray.is_initialized():
            paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
            self._own = self._address is None
            ray.init(
                address=self._address or "local",
                include_dashboard=False if self._own else None,
                log_to_driver=False,
                runtime_env={"env_vars": {"PYTHONPATH": paths}} if self._own else None,
            )
        serve.start(proxy_location="Disabled")

    def sweep(self, pipeline: str) -> None:
        """Delete the later versions of a pipeline's nodes that a process which died has left."""
        left = re.compile(rf"motet-{re.escape(pipeline)}-.+-v\d+")
        for name in list(serve.status().applications):
            if left.fullmatch(name):
                serve.delete(name)

    def leave(self) -> None:
        """End it, if it was started here and nobody else is on it."""
        if self._own and not self.users:
            serve.shutdown()
            ray.shutdown()
            self._own = False


@dataclass(eq=False)
class App:
    """One node as a Serve application; `users` counts the open runtimes that have it."""

    pipeline: str
    node: Node
    setup: Setup
    version: str = "1"
    users: int = 0
    handle: Any = None

    @property
    def name(self) -> str:
        """The application's name on the cluster."""
        plain = f"motet-{self.pipeline}-{self.node.name}"
        return plain if self.version == "1" else f"{plain}-v{self.version}"

    def deploy(self, tls: MutualTls | None, *, drain_s: float) -> None:
        """Start it, if it isn't there yet; blocks until it runs.

        Raises:
            ComponentFailed: it didn't come up.
        """
        if self.handle is not None:
            return
        name = self.node.name
        made = serve.deployment(name=name, **options(self.node, self.setup, drain_s=drain_s))
        app = made(Replica).bind(self.node.spec.use, self.setup, tls)
        try:
            handle = serve.run(app, name=self.name, route_prefix=None, blocking=False)
        except RuntimeError as error:
            raise ComponentFailed(f"the deployment failed: {error}", where=name) from error
        self.handle = handle.options(stream=True)

    def delete(self) -> None:
        """Take it down, if it was started and nobody has it any more."""
        if self.handle is not None and not self.users:
            serve.delete(self.name)
            self.handle = None
