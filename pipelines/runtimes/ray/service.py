"""Components on Ray that somebody else deployed: a RayService, as `motet deploy ray` writes it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ....components.base import Resources
from ....components.errors import ComponentFailed, Flaw, SpecError, nearest
from ...graph import Graph, Node
from ...spec import NodeSpec
from ..local import setup_of
from ..mux import MutualTls
from .api import running, serve
from .cluster import CLUSTER
from .node import RayNode
from .serve import RayRuntime

PATIENCE_S = 900.0
BESIDE_S = 10.0
"""How long a later version waits for its applications, which are to be there before it."""
LOOK_S = 2.0


class AppArguments(BaseModel):
    """What an application of a Serve config is made from. `spec` is the node as in the pipeline
    file; a replica that goes waits `drain_s` for its sessions; `tls_dir` has `ca.crt`, `tls.crt`
    and `tls.key`. `part` has pods for it alone: that of the node, or of its canary.
    """

    model_config = ConfigDict(extra="forbid")

    pipeline: str
    node: str
    spec: NodeSpec
    drain_s: float
    part: str
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
    return made.bound(part=args.part)


class RayServiceRuntime(RayRuntime):
    """Uses the applications as they are: waits for them at the start, and leaves them there.
    `targets` are the applications of nodes that have another than the usual one.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        address: str | None = None,
        tls: MutualTls | None = None,
        version: str = "1",
        before: RayRuntime | None = None,
        targets: Mapping[str, str] = {},
        patience_s: float = PATIENCE_S,
    ) -> None:
        super().__init__(graph, address=address, tls=tls, version=version, before=before)
        self._patience_s = patience_s
        for name, app in targets.items():
            self._nodes[name] = self._node(graph.nodes[name], app=app)

    def _deploy(self) -> None:
        until_s = time.monotonic() + self._patience_s
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

    def successor(
        self, graph: Graph, version: str, *, fresh: bool = False, targets: Mapping[str, str] = {}
    ) -> RayServiceRuntime:
        """See `Runtime.successor`. A changed component needs an application of its own, which the
        service deploys beside the others: the `targets` name these.
        """
        kept = self.graph.nodes
        flaws = [
            Flaw(
                f"nodes.{name}",
                "a RayService deploys it, as it is; deploy the new one beside it (`motet deploy ray"
                " --canary`), then begin a canary that names its application: motet canary start"
                f" {graph.name} --targets {name}=APPLICATION",
            )
            for name, node in graph.nodes.items()
            if name not in targets and (fresh or name not in kept or kept[name].spec != node.spec)
        ]
        flaws += [
            Flaw(f"targets.{name}", f"is no node; {nearest(name, list(graph.nodes))}")
            for name in targets
            if name not in graph.nodes
        ]
        if flaws:
            raise SpecError(flaws, file=graph.name)
        return RayServiceRuntime(
            graph,
            address=self._address,
            tls=self._tls,
            version=version,
            before=self,
            targets=targets,
            patience_s=BESIDE_S,
        )

    def _wait(self, until_s: float, why: str) -> None:
        if self._closing.is_set():
            raise ComponentFailed("the server is stopping", where="rayservice")
        if time.monotonic() > until_s:
            raise ComponentFailed(f"{why} after {self._patience_s:g} s", where="rayservice")
        time.sleep(LOOK_S)
