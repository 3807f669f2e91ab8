"""A graph as Kubernetes objects: a gateway at the doors, each component scaled on its own."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from ..graph import Graph, Node

Object = dict[str, Any]
HOP_PORT, HEALTH_PORT, HTTP_PORT, GRPC_PORT = 50061, 50062, 8000, 50051
FOLDER, FILE, CANARY_FILE = "/etc/motet", "pipeline.yaml", "canary.yaml"
PRE_STOP_S = 5
DRAIN_MARGIN_S = 30
LOADS_S = 900
"""How long a component may take to load."""
CANARYS_END = "Then delete all that is named {parts}, once no session is left there."
SCRAPED_S = 5
"""How often Prometheus reads the gateways."""


@dataclass(frozen=True, slots=True)
class DeploySettings:
    """What the manifests need to know beyond the graph.

    `keys_secret` has the API keys (entry `api-keys`, and `metrics-key` for Prometheus) and what
    seals ephemeral keys (`ephemeral-secret`), so that every one of the `gateways` knows them.
    `tls_secret` has `ca.crt`, `tls.crt`, `tls.key` for the connections between gateway and
    components. `models_claim` is a volume claim mounted read-only at /models. `surge` False
    replaces a pod by stopping it first, for clusters without a spare GPU. `node_images` are the
    images of nodes that need another than `image`: those on a GPU, say. `deletion_cost` lets the
    pods of components tell Kubernetes which of them has the fewest runs; its access rules take a
    right on the whole cluster to apply.
    """

    image: str
    node_images: Mapping[str, str] = field(default_factory=dict[str, str])
    namespace: str = "default"
    keys_secret: str = "motet-keys"
    tls_secret: str | None = None
    prometheus_url: str = "http://prometheus-operated.monitoring.svc:9090"
    models_claim: str | None = None
    gateways: int = 1
    surge: bool = True
    deletion_cost: bool = True


class Naming:
    """Names, labels and metadata of a graph's objects, or of those that its `canary` needs beside
    another graph's.
    """

    def __init__(self, graph: Graph, settings: DeploySettings, *, canary: bool = False) -> None:
        self.graph = graph
        self.settings = settings
        self.canary = canary
        self.file = f"{FOLDER}/{CANARY_FILE if canary else FILE}"
        self.base = "motet-" + graph.name.replace(".", "-").replace("_", "-")
        self.text = yaml.safe_dump(
            graph.spec.model_dump(mode="json", exclude_defaults=True), sort_keys=False
        )

    def part(self, node: str) -> str:
        """The part that runs a node."""
        return f"{node}-canary" if self.canary else node

    def image(self, part: str) -> str:
        """The image of a part; a canary's node has that of the node itself, if none of its own."""
        images = self.settings.node_images
        return images.get(part) or images.get(part.removesuffix("-canary"), self.settings.image)

    def name(self, part: str) -> str:
        """The name of a part's objects; parts are nodes, those of canaries, and "gateway"."""
        return f"{self.base}-{part.replace('_', '-')}"

    def labels(self, part: str) -> dict[str, str]:
        """What selects a part's pods."""
        return {
            "app.kubernetes.io/name": "motet",
            "app.kubernetes.io/instance": self.graph.name,
            "app.kubernetes.io/component": part,
        }

    def metadata(self, part: str, **annotations: str) -> Object:
        """Metadata of a part's object."""
        found: Object = {
            "name": self.name(part),
            "namespace": self.settings.namespace,
            "labels": self.labels(part),
        }
        if annotations:
            found["annotations"] = annotations
        return found

    @property
    def digest(self) -> str:
        """Changes with the graph, so that pods are replaced when it is edited."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def grace_s(self) -> int:
        """How long what runs may go on after SIGTERM: the longest session."""
        return math.ceil(self.graph.spec.sessions.max_age_s)

    def where(self, node: str | None = None) -> str:
        """What selects the metrics of this graph, or of one node of it, in Prometheus."""
        found = f'namespace="{self.settings.namespace}",pipeline="{self.graph.name}"'
        return f'{found},node="{node}",target="{self.target(node)}"' if node else found

    def target(self, node: str) -> str:
        """Where the gateway finds a node's replicas: the headless service has all addresses."""
        return f"{self.name(self.part(node))}.{self.settings.namespace}.svc:{HOP_PORT}"


def shared(naming: Naming, canary: Naming | None) -> list[Object]:
    """The pipeline file, that of its canary, and who the pods are."""
    metadata = naming.metadata("pipeline")
    files = {FILE: naming.text} | ({CANARY_FILE: canary.text} if canary else {})
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": files,
        },
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata,
            "automountServiceAccountToken": False,
        },
    ]


def pod(
    naming: Naming, part: str, container: Object, *, account: str = "pipeline", token: bool = False
) -> Object:
    """A pod template: an unprivileged container on a read-only root, with the pipeline file.

    `token` mounts that of the service account named after `account`.
    """
    settings = naming.settings
    volumes: list[Object] = [
        {"name": "pipeline", "configMap": {"name": naming.name("pipeline")}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    ]
    mounts: list[Object] = [
        {"name": "pipeline", "mountPath": FOLDER, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "shm", "mountPath": "/dev/shm"},
    ]
    if settings.tls_secret:
        volumes.append({"name": "tls", "secret": {"secretName": settings.tls_secret}})
        mounts.append({"name": "tls", "mountPath": "/etc/motet-tls", "readOnly": True})
    if settings.models_claim:
        claim = {"claimName": settings.models_claim, "readOnly": True}
        volumes.append({"name": "models", "persistentVolumeClaim": claim})
        mounts.append({"name": "models", "mountPath": "/models", "readOnly": True})
    whole = {
        **container,
        "image": naming.image(part),
        "env": [{"name": "HOME", "value": "/tmp"}, *container.get("env", [])],
        "volumeMounts": mounts,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # Endpoints are told first: no new run comes to a pod that has begun to drain.
        "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_S}}},
    }
    return {
        "metadata": {
            "labels": naming.labels(part),
            "annotations": {"motet.dev/pipeline": naming.digest},
        },
        "spec": {
            "serviceAccountName": naming.name(account),
            "automountServiceAccountToken": token,
            # Kubernetes' own MOTET_… variables would look like settings.
            "enableServiceLinks": False,
            # The sleep before SIGTERM counts, and goodbyes take a moment.
            "terminationGracePeriodSeconds": PRE_STOP_S + naming.grace_s + DRAIN_MARGIN_S,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "runAsGroup": 10001,
                "fsGroup": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": naming.labels(part)},
                    # Pods that a rollout is about to end don't count.
                    "matchLabelKeys": ["pod-template-hash"],
                }
            ],
            "containers": [whole],
            "volumes": volumes,
        },
    }


def deployment(naming: Naming, part: str, template: Object, replicas: int | None) -> Object:
    """A Deployment; `replicas` None leaves the number to an autoscaler."""
    surge = naming.settings.surge
    rolling = {"maxUnavailable": 0 if surge else 1, "maxSurge": 1 if surge else 0}
    spec: Object = {
        "selector": {"matchLabels": naming.labels(part)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        "progressDeadlineSeconds": LOADS_S + 300,
        "template": template,
    }
    if replicas is not None:
        spec = {"replicas": replicas, **spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": naming.metadata(part),
        "spec": spec,
    }


def budget(naming: Naming, part: str) -> Object:
    """At most one pod at a time is evicted, and a broken one always may be."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": naming.metadata(part),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": naming.labels(part)},
        },
    }


def scaled(node: Node) -> bool:
    """Whether a node's number of replicas moves."""
    return node.spec.scale.min_replicas != node.spec.scale.max_replicas


def manifests(
    graph: Graph, settings: DeploySettings, *, canary: Graph | None = None
) -> list[Object]:
    """All objects, in an order in which they can be applied; with a `canary` the components that
    differ in it are there twice.

    Raises:
        SpecError: the graph has what Kubernetes can't do.
    """
    from .access import access
    from .canary import changed, named
    from .check import check
    from .gateway import gateway
    from .node import node_objects
    from .watch import watching

    naming = Naming(graph, settings)
    other = named(graph, canary, settings) if canary is not None else None
    check(naming, other)
    objects = shared(naming, other)
    if settings.deletion_cost:
        objects += access(naming)
    for name in graph.order:
        objects += node_objects(naming, graph.nodes[name])
    if other is not None:
        for node in changed(graph, other):
            objects += node_objects(other, node)
    return [*objects, *gateway(naming), *watching(naming)]
