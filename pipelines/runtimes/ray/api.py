"""Ray as the Ray files use it: imported by name, since its types aren't there without it."""

from __future__ import annotations

import importlib
import os
from typing import Any

# A cluster is joined on purpose only: else a thread of Ray's own that comes late would join it
# again after it was left.
os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
ray: Any = importlib.import_module("ray")
serve: Any = importlib.import_module("ray.serve")
_state: Any = importlib.import_module("ray._private.state")
_exceptions: Any = importlib.import_module("ray.serve.exceptions")

RayError: type[Exception] = ray.exceptions.RayError
RayActorError: type[Exception] = ray.exceptions.RayActorError
DeploymentUnavailableError: type[Exception] = _exceptions.DeploymentUnavailableError

STATES = {"RUNNING": "ready", "STOPPING": "draining", "PENDING_MIGRATION": "draining"}


def replicas(apps: dict[str, str]) -> dict[str, dict[str, str]]:
    """Each application's replicas by id, with their states as every runtime names them.

    `apps` maps applications to their deployment. The controller is asked as Serve's dashboard
    asks it: `serve.status` counts replicas without naming them. Empty outside a cluster, which
    most calls of `serve` would join.
    """
    if not ray.is_initialized():
        return {}
    controller = ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve")
    details: dict[str, Any] = ray.get(controller.get_serve_instance_details.remote())
    found: dict[str, dict[str, str]] = {}
    for app, deployment in apps.items():
        running = details["applications"].get(app, {}).get("deployments", {}).get(deployment, {})
        found[app] = {
            str(one["replica_id"]): STATES.get(_name(one["state"]), "starting")
            for one in running.get("replicas", [])
            if _name(one["state"]) != "STOPPED"
        }
    return found


def _name(state: Any) -> str:
    return str(getattr(state, "value", state))


def running() -> set[str]:
    """The names of the applications that run."""
    seen: Any = serve.status()
    return {name for name, app in seen.applications.items() if _name(app.status) == "RUNNING"}


def job() -> str:
    """The job that Ray takes this process for, in hex. It is never another's, and over with the
    process, however that ends.
    """
    return str(ray.get_runtime_context().get_job_id())


def dead_jobs() -> set[str]:
    """The jobs whose processes are over, as far as the cluster remembers them."""
    return {one["JobID"] for one in _state.jobs() if one["IsDead"]}


def deployed() -> set[str]:
    """The names of all applications on the cluster."""
    return set(serve.status().applications) if ray.is_initialized() else set()
