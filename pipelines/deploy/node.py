"""The Kubernetes objects of one component: its pods, their addresses, and how it scales."""

from __future__ import annotations

import math
from typing import Any

from ...components import registry
from ...components.base import Component
from ..graph import Node
from ..scaling import BUSY
from .kubernetes import (
    HEALTH_PORT,
    HOP_PORT,
    LOADS_S,
    SCRAPED_S,
    Naming,
    Object,
    budget,
    deployment,
    pod,
    scaled,
)

LONGEST_WINDOW_S = 3600
SHORTEST_WINDOW_S = 2 * SCRAPED_S
GPU = "nvidia.com/gpu"


def node_objects(naming: Naming, node: Node) -> list[Object]:
    """Deployment, headless Service, budget, network policy, and an autoscaler if it scales."""
    scale, part = node.spec.scale, naming.part(node.name)
    told = naming.settings.deletion_cost
    account = "node" if told else "pipeline"
    template = pod(naming, part, container(naming, node), account=account, token=told)
    if node.spec.resources.gpus:
        # Nodes with GPUs are commonly kept free of everything else by this taint.
        toleration = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
        template["spec"]["tolerations"] = [toleration]
    replicas = None if scaled(node) else scale.min_replicas
    objects = [
        deployment(naming, part, template, replicas),
        service(naming, part),
        budget(naming, part),
        policy(naming, part),
    ]
    return [*objects, scaled_object(naming, node)] if scaled(node) else objects


def container(naming: Naming, node: Node) -> Object:
    """`motet node`, with probes for starting, taking runs, and living."""
    command = ["motet", "node", naming.file, node.name, "--address", f"0.0.0.0:{HOP_PORT}"]
    command += ["--health-address", f"0.0.0.0:{HEALTH_PORT}"]
    command += ["--cpus", f"{cpus(node):g}", "--grace-s", str(naming.grace_s)]
    if naming.settings.tls_secret:
        command += ["--tls-dir", "/etc/motet-tls"]
    name: list[Object] = []
    if naming.settings.deletion_cost:
        # Kubernetes puts the variable's value in the place of its name.
        command += ["--pod", "$(POD_NAME)"]
        name = [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    return {
        "name": "node",
        "command": command,
        "env": name,
        "ports": [
            {"name": "hop", "containerPort": HOP_PORT},
            {"name": "health", "containerPort": HEALTH_PORT},
        ],
        # Loading may take a quarter of an hour, and a busy pod is never a dead one.
        "startupProbe": probe("startup", periodSeconds=5, failureThreshold=LOADS_S // 5),
        "readinessProbe": probe("readiness", periodSeconds=5, timeoutSeconds=3, failureThreshold=2),
        "livenessProbe": probe("liveness", periodSeconds=20, failureThreshold=6, timeoutSeconds=10),
        "resources": resources(node),
    }


def probe(service: str, **timing: int) -> Object:
    """A native gRPC probe of one health service."""
    return {"grpc": {"port": HEALTH_PORT, "service": service}, **timing}


def cpus(node: Node) -> float:
    """The cores of a replica: what the file says, else one."""
    return node.spec.resources.cpus or 1.0


def resources(node: Node) -> Object:
    """Requests and limits; memory is a limit only where the file says it."""
    asked = node.spec.resources
    requests: dict[str, Any] = {"cpu": f"{math.ceil(cpus(node) * 1000)}m"}
    limits: dict[str, Any] = {}
    if asked.memory_gb is not None:
        requests["memory"] = limits["memory"] = f"{math.ceil(asked.memory_gb * 1024)}Mi"
    if asked.gpus:
        limits[GPU] = int(asked.gpus)
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}


def service(naming: Naming, part: str) -> Object:
    """A headless Service: the gateway sees every pod and spreads runs itself."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": naming.metadata(part),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": False,
            "selector": naming.labels(part),
            "ports": [
                {
                    "name": "hop",
                    "port": HOP_PORT,
                    "targetPort": "hop",
                    "appProtocol": "tcp",
                }
            ],
        },
    }


def policy(naming: Naming, part: str) -> Object:
    """Only the gateway reaches the hop; probes come from the node's kubelet and need no rule."""
    source = {"podSelector": {"matchLabels": naming.labels("gateway")}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": naming.metadata(part),
        "spec": {
            "podSelector": {"matchLabels": naming.labels(part)},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [source], "ports": [{"protocol": "TCP", "port": HOP_PORT}]}],
        },
    }


def scaled_object(naming: Naming, node: Node) -> Object:
    """The five settings for KEDA. `cooldownPeriod` is the way to zero alone; above it, the
    autoscaler's stabilization window is the delay.
    """
    scale = node.spec.scale
    delay_s = min(LONGEST_WINDOW_S, round(scale.scale_down_delay_s))
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": naming.metadata(naming.part(node.name)),
        "spec": {
            "scaleTargetRef": {"name": naming.name(naming.part(node.name))},
            "minReplicaCount": scale.min_replicas,
            "maxReplicaCount": scale.max_replicas,
            "pollingInterval": 5,
            "cooldownPeriod": round(scale.scale_down_delay_s),
            "fallback": {
                "failureThreshold": 3,
                "replicas": max(1, scale.min_replicas),
                "behavior": "currentReplicasIfHigher",
            },
            "advanced": {
                "horizontalPodAutoscalerConfig": {
                    "behavior": {
                        "scaleUp": {"stabilizationWindowSeconds": 0},
                        "scaleDown": {
                            "stabilizationWindowSeconds": delay_s,
                            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
                        },
                    }
                }
            },
            "triggers": triggers(naming, node),
        },
    }


def triggers(naming: Naming, node: Node) -> list[Object]:
    """What a component is scaled by, the larger of both: runs active and waiting, and how busy its
    engines are, where they tell: one run may have work for many.

    The gateways count, so that a component at zero is woken. Each has its own runs and sees the
    engines of all.
    """
    kind, scale = registry.component_class(node.spec.use), node.spec.scale
    # A window in which Prometheus has read nothing would count as a fault.
    window = f"{max(SHORTEST_WINDOW_S, round(scale.window_s))}s"

    def mean(what: str) -> str:
        return f"avg_over_time(motet_node_{what}{{{naming.where(node.name)}}}[{window}])"

    runs = f"sum({mean('active')}) + sum({mean('queued')})"
    found = [trigger(naming, runs, scale.concurrency or kind.concurrency)]
    if kind.utilisation is not Component.utilisation:
        found.append(trigger(naming, f"max({mean('busy')})", BUSY))
    return found


def trigger(naming: Naming, query: str, each: float) -> Object:
    """So many replicas that each has `each` of what is asked for."""
    return {
        "type": "prometheus",
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": naming.settings.prometheus_url,
            "query": query,
            "threshold": f"{each:g}",
            "activationThreshold": "0",
            # An empty answer is a fault, so that `fallback` holds the replicas.
            "ignoreNullValues": "false",
        },
    }
