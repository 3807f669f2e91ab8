"""A node as a Ray Serve deployment: its name, its settings translated or refused."""

from __future__ import annotations

import re
from typing import Any

from ....components.base import Setup
from ....components.errors import Flaw, SpecError
from ...graph import Graph, Node
from .policy import METRICS_S, ScalePolicy

HEALTH_S = 5.0
FIRST_LOAD_S = 900.0


def check(graph: Graph) -> None:
    """Refuse what Ray Serve can't do.

    Raises:
        SpecError: with every setting that has no translation.
    """
    flaws: list[Flaw] = []
    for name, node in graph.nodes.items():
        spec = node.spec
        if not spec.preload and spec.scale.min_replicas > 0:
            flaws.append(
                Flaw(
                    f"nodes.{name}.preload",
                    "Ray Serve loads a deployment's replicas at the start;"
                    " for loading at the first run set scale.min_replicas: 0",
                )
            )
    if flaws:
        raise SpecError(flaws, file=f"{graph.name} on ray")


def app_of(pipeline: str, part: str, *, server: str = "", version: str = "1") -> str:
    """The name of the application of a node, or of another part. A `server` deploys it for itself
    alone, and is named as its cluster named it when it joined; without one all who serve the
    pipeline share it.
    """
    own = f"-job-{server}" if server else ""
    return f"motet-{pipeline}-{part}{own}" + (f"-v{version}" if version != "1" else "")


def job_of(app: str) -> str | None:
    """The job of Ray's whose server deployed an application for itself, from its name."""
    found = re.fullmatch(r"motet-.+-job-([0-9a-f]+)\.\d+(-v.+)?", app)
    return found[1] if found else None


def place_of(part: str) -> str:
    """The resource of Ray's that the pods of a part's replicas have, and no other."""
    return f"motet-{part}"


def options(node: Node, setup: Setup, *, drain_s: float, part: str = "") -> dict[str, Any]:
    """The options of a node's deployment.

    A replica takes as many leases as it serves runs. Its autoscaling is our own policy: Ray's
    smoothing and delays are set to nothing. A replica that goes waits `drain_s` for its leases.
    With a `part` a replica asks for a place in a pod of that part's group.
    """
    scale, resources = node.spec.scale, node.spec.resources
    actor: dict[str, Any] = {"num_cpus": resources.cpus or 0, "num_gpus": resources.gpus}
    if part:
        actor |= {"num_cpus": resources.cpus or 1, "resources": {place_of(part): 1}}
    if resources.memory_gb is not None:
        actor["memory"] = int(resources.memory_gb * 2**30)
    return {
        "max_ongoing_requests": setup.concurrency,
        # The bound is kept where runs wait, by `RayNode`: a handle doesn't know it from the start.
        "max_queued_requests": -1,
        "ray_actor_options": actor,
        "autoscaling_config": {
            "min_replicas": scale.min_replicas,
            "initial_replicas": scale.min_replicas,
            "max_replicas": scale.max_replicas,
            "target_ongoing_requests": setup.concurrency,
            "metrics_interval_s": METRICS_S,
            "look_back_period_s": 2 * METRICS_S,
            "upscale_delay_s": 0,
            "downscale_delay_s": 0,
            "policy": {
                "policy_function": f"{ScalePolicy.__module__}:{ScalePolicy.__name__}",
                "policy_kwargs": {**scale.model_dump(), "concurrency": setup.concurrency},
            },
        },
        "graceful_shutdown_timeout_s": drain_s,
        "graceful_shutdown_wait_loop_s": 0.5,
        "health_check_period_s": HEALTH_S,
        "health_check_timeout_s": FIRST_LOAD_S,
    }
