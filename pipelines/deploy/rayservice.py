"""A graph as a RayService of KubeRay's: a group of pods per component, gateways in the cluster."""

from __future__ import annotations

import json
import math
import shlex
from typing import Any

import yaml

from ...components.errors import Flaw, SpecError
from ..graph import Graph, Node
from ..runtimes.ray.deployment import app_of, check, place_of
from .canary import changed, named
from .check import check_names
from .gateway import container, policy, service
from .kubernetes import DRAIN_MARGIN_S, DeploySettings, Naming, Object, budget, pod, shared
from .node import GPU, cpus
from .watch import watching

RAY_VERSION = "2.60.0"
"""What the image has; KubeRay chooses probes by it."""
APP = "motet.pipelines.runtimes.ray.service:build"
GATEWAY = "gateway"
HEAD = "head"
LONGEST_NAME = 47
AGENT_PORT, DASHBOARD_PORT = 52365, 8265
STORE_BYTES = 256 * 2**20
OVERHEAD_MB = 1536
"""What Ray itself takes of a pod's memory: its daemons, and the object store, which frames don't
go through.
"""
CANARYS_END = "Its applications end then, as their sessions do; the groups of {parts} stay, empty."
Part = tuple[Naming, Node]


def ray_manifests(
    graph: Graph, settings: DeploySettings, *, canary: Graph | None = None
) -> list[Object]:
    """All objects, in an order in which they can be applied; with a `canary` the components that
    differ in it are there twice.

    Ray scales the components, KubeRay the pods. An edited cluster is not replaced by itself, since
    KubeRay's ways to do so end the old one whatever its sessions do; edited components are, pod by
    pod of their group, each when its sessions have ended.

    Raises:
        SpecError: the graph has what Ray or Kubernetes can't do.
    """
    check(graph)
    naming = Naming(graph, settings)
    other = named(graph, canary, settings) if canary is not None else None
    if canary is not None:
        check(canary)
    check_names(naming, other)
    if len(naming.base) > LONGEST_NAME:
        why = f"KubeRay takes names of {LONGEST_NAME} letters, {naming.base!r} is longer"
        raise SpecError([Flaw("name", why)], file=f"{graph.name} on ray")
    parts = [(naming, graph.nodes[name]) for name in graph.order]
    more = [(other, node) for node in changed(graph, other)] if other is not None else []
    return [
        *shared(naming, other),
        ray_service(naming, parts, more),
        service(naming),
        *(budget(naming, part) for part in (*graph.order, GATEWAY)),
        policy(naming),
        inner_policy(naming),
        *watching(naming),
    ]


def ray_service(naming: Naming, parts: list[Part], more: list[Part]) -> Object:
    """The cluster, and the applications that Serve runs on it.

    Groups that are new at the end, as the `more` of a canary are, come to a cluster that runs;
    KubeRay takes no group away from it, so those of a former canary stay there without pods.
    """
    metadata = naming.metadata(HEAD)
    metadata["name"] = naming.base
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": metadata,
        "spec": {
            "serveConfigV2": serve_config([*parts, *more]),
            "upgradeStrategy": {"type": "None"},
            "rayClusterDeletionDelaySeconds": naming.grace_s + DRAIN_MARGIN_S,
            "excludeHeadPodFromServeSvc": True,
            "rayClusterConfig": {
                "rayVersion": RAY_VERSION,
                "enableInTreeAutoscaling": True,
                "headGroupSpec": head(naming),
                "workerGroupSpecs": [
                    *(group(*part) for part in parts),
                    gateways(naming),
                    *(group(*part) for part in more),
                ],
            },
        },
    }


def serve_config(parts: list[Part]) -> str:
    """Serve's own config: one application per component, without a proxy of Ray's."""
    applications = [
        {
            "name": application(naming, node.name),
            "route_prefix": None,
            "import_path": APP,
            "args": {
                "pipeline": naming.graph.name,
                "node": node.name,
                "spec": node.spec.model_dump(mode="json", exclude_defaults=True),
                "drain_s": naming.grace_s,
                "part": naming.part(node.name),
                **({"tls_dir": "/etc/motet-tls"} if naming.settings.tls_secret else {}),
            },
        }
        for naming, node in parts
    ]
    config = {"proxy_location": "Disabled", "applications": applications}
    return yaml.safe_dump(config, sort_keys=False, width=1000)


def application(naming: Naming, node: str) -> str:
    """What Serve calls a component."""
    return app_of(naming.graph.name, naming.part(node))


def head(naming: Naming) -> Object:
    """The head, which runs no component. Its service account is KubeRay's: it scales the pods."""
    one: Object = {
        "name": "ray-head",
        "ports": [
            {"name": "gcs-server", "containerPort": 6379},
            {"name": "dashboard", "containerPort": DASHBOARD_PORT},
        ],
        **probes(),
        "resources": {
            "requests": {"cpu": "1000m", "memory": "4096Mi"},
            "limits": {"memory": "4096Mi"},
        },
    }
    template = pod(naming, HEAD, one)
    del template["spec"]["serviceAccountName"], template["spec"]["automountServiceAccountToken"]
    parameters = {"num-cpus": "0", "dashboard-host": "0.0.0.0", **store()}
    return {"rayStartParams": parameters, "template": template}


def group(naming: Naming, node: Node) -> Object:
    """The pods of one component: one replica each, or as many as share a GPU."""
    scale, asked = node.spec.scale, node.spec.resources
    each = math.floor(1 / asked.gpus) if 0 < asked.gpus < 1 else 1
    cores = math.ceil(cpus(node) * each)
    requests: dict[str, Any] = {"cpu": f"{math.ceil(cpus(node) * each * 1000)}m"}
    limits: dict[str, Any] = {}
    if asked.memory_gb is not None:
        memory_mb = math.ceil(asked.memory_gb * 1024) * each + OVERHEAD_MB
        requests["memory"] = limits["memory"] = f"{memory_mb}Mi"
    if asked.gpus:
        limits[GPU] = math.ceil(asked.gpus)
    one: Object = {
        "name": "ray-worker",
        **probes(),
        "resources": {"requests": requests, **({"limits": limits} if limits else {})},
    }
    part = naming.part(node.name)
    template = pod(naming, part, one)
    if asked.gpus:
        toleration = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
        template["spec"]["tolerations"] = [toleration]
    places = json.dumps({place_of(part): each})
    # Ray asks for a canary's pods as long as its application is there.
    lowest = 0 if naming.canary else math.ceil(scale.min_replicas / each)
    return {
        "groupName": part.replace("_", "-"),
        "replicas": lowest,
        "minReplicas": lowest,
        "maxReplicas": math.ceil(scale.max_replicas / each),
        "rayStartParams": {
            "num-cpus": str(cores),
            # A JSON string within a shell's: so KubeRay hands it to `ray start`.
            "resources": json.dumps(places),
            **store(),
        },
        "template": template,
    }


def gateways(naming: Naming) -> Object:
    """The doors, on nodes of the cluster that run no component."""
    one = container(naming, ["--runtime", "rayservice"])
    serve = shlex.join(one.pop("command"))
    one["command"] = ["/bin/bash", "-c"]
    one["args"] = [f"ulimit -n 65536; $KUBERAY_GEN_RAY_START_CMD & exec {serve}"]
    template = pod(naming, GATEWAY, one)
    template["metadata"]["annotations"]["ray.io/overwrite-container-cmd"] = "true"
    count = naming.settings.gateways
    return {
        "groupName": GATEWAY,
        "replicas": count,
        "minReplicas": count,
        "maxReplicas": count,
        "rayStartParams": {"num-cpus": "0", **store()},
        "template": template,
    }


def store() -> dict[str, str]:
    """A small object store: frames go by the hop."""
    return {"object-store-memory": str(STORE_BYTES)}


def probes() -> Object:
    """KubeRay's own would ask for Serve's proxy, and there is none."""
    asked = {"path": "/api/local_raylet_healthz", "port": AGENT_PORT}
    return {
        "startupProbe": {"httpGet": asked, "periodSeconds": 5, "failureThreshold": 60},
        "readinessProbe": {"httpGet": asked, "periodSeconds": 5, "timeoutSeconds": 5},
        "livenessProbe": {
            "httpGet": asked,
            "periodSeconds": 20,
            "timeoutSeconds": 10,
            "failureThreshold": 6,
        },
    }


def inner_policy(naming: Naming) -> Object:
    """Ray's ports, which ask for no key, are for the cluster's own pods and KubeRay's operator."""
    metadata = naming.metadata("ray")
    ours = {
        "app.kubernetes.io/name": "motet",
        "app.kubernetes.io/instance": naming.graph.name,
    }
    operator = {
        "namespaceSelector": {},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "kuberay-operator"}},
    }
    dashboard = [{"protocol": "TCP", "port": DASHBOARD_PORT}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": ours},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": {"matchLabels": ours}}]},
                {"from": [operator], "ports": dashboard},
            ],
        },
    }
