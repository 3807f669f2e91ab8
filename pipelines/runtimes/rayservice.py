"""Components on Ray that somebody else deployed: a RayService, as `motet deploy ray` writes it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ...components.base import Resources
from ...components.errors import ComponentFailed, Flaw, SpecError
from ..graph import Graph, Node
from ..spec import NodeSpec
from .local import setup_of
from .mux import MutualTls
from .rayapi import running, serve
from .raycluster import CLUSTER
from .raynode import RayNode
from .rayserve import RayRuntime

PATIENCE_S = 900.0
LOOK_S = 2.0


class AppArguments(BaseModel):
    """What an application of a Serve config is made from. `spec` is the node as in the pipeline
    file; a replica that goes waits `drain_s` for its sessions; `tls_dir` has `ca.crt`, `tls.crt`
    and `tls.key`.
    """

    model_config = ConfigDict(extra="forbid")

    pipeline: str
    node: str
    spec: NodeSpec
    drain_s: float
    tls_dir: Path | None = None


def build(given: dict[str, Any]) -> Any:
    """The Serve application of one node, as `import_path` of a Serve config names it.

    Raises:
        ValidationError: what is `given` isn't `AppArguments`.
    """
    args = AppArguments.model_validate(given)
    node = Node(args.node, args.spec, (), ())
    asked = args.spec.resources
    made = RayNode(
        args.pipeline,
        node,
        setup_of(node, Resources(asked.cpus or 1.0, asked.gpus)),
        drain_s=args.drain_s,
        tls=MutualTls.of(args.tls_dir) if args.tls_dir else None,
    )
    return made.bound(pods=True)


class RayServiceRuntime(RayRuntime):
    """Uses the applications as they are: waits for them at the start, and leaves them there."""

    def _deploy(self) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                CLUSTER.join(self._address or "auto", serving=False)
                break
            except (ConnectionError, RuntimeError) as error:
                # The raylet of this machine comes up beside us.
                self._wait(until_s, f"no Ray here: {error}")
        nodes = list(self._nodes.values())
        while missing := sorted({node.app for node in nodes} - running()):
            self._wait(until_s, f"Ray has no running application {', '.join(missing)}")
        for node in nodes:
            node.runs(serve.get_app_handle(node.app))

    def successor(self, graph: Graph, version: str, *, fresh: bool = False) -> RayRuntime:
        """See `Runtime.successor`. Components are changed where they are deployed."""
        del version
        kept = self.graph.nodes
        flaws = [
            Flaw(f"nodes.{name}", "a RayService deploys it; change it there (`motet deploy ray`)")
            for name, node in graph.nodes.items()
            if fresh or name not in kept or kept[name].spec != node.spec
        ]
        if flaws:
            raise SpecError(flaws, file=graph.name)
        return RayServiceRuntime(graph, address=self._address, tls=self._tls, before=self)

    def _wait(self, until_s: float, why: str) -> None:
        if self._closing.is_set():
            raise ComponentFailed("the server is stopping", where="rayservice")
        if time.monotonic() > until_s:
            raise ComponentFailed(f"{why} after {PATIENCE_S:g} s", where="rayservice")
        time.sleep(LOOK_S)
