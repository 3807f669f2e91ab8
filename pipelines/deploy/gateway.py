"""The Kubernetes objects of the doors: the gateway's pods and the service in front of them."""

from __future__ import annotations

from .kubernetes import GRPC_PORT, HTTP_PORT, LOADS_S, Naming, Object, budget, deployment, pod

PART = "gateway"


def gateway(naming: Naming) -> list[Object]:
    """Deployment, Service, budget and network policy of the gateway."""
    targets = [f"{name}={naming.target(name)}" for name in naming.graph.order]
    runtime = ["--runtime", "remote", "--targets", *targets]
    template = pod(naming, PART, container(naming, runtime))
    return [
        deployment(naming, PART, template, naming.settings.gateways),
        service(naming),
        budget(naming, PART),
        policy(naming),
    ]


def container(naming: Naming, runtime: list[str]) -> Object:
    """`motet serve`; `runtime` are its arguments that say where the components are."""
    command = ["motet", "serve", naming.file, "--host", "0.0.0.0", "--port", str(HTTP_PORT)]
    command += ["--grpc-port", str(GRPC_PORT), *runtime]
    command += ["--data-dir", "/tmp/motet", "--shutdown-grace-s", str(naming.grace_s)]
    if naming.settings.tls_secret:
        command += ["--hop-tls-dir", "/etc/motet-tls"]
    secret = naming.settings.keys_secret
    keys = {"name": secret, "key": "api-keys"}
    admin = {"name": secret, "key": "admin-keys", "optional": True}
    ephemeral = {"name": secret, "key": "ephemeral-secret"}
    return {
        "name": "gateway",
        "command": command,
        "env": [
            {"name": "MOTET_API_KEYS", "valueFrom": {"secretKeyRef": keys}},
            {"name": "MOTET_ADMIN_KEYS", "valueFrom": {"secretKeyRef": admin}},
            {"name": "MOTET_EPHEMERAL_SECRET", "valueFrom": {"secretKeyRef": ephemeral}},
        ],
        "ports": [
            {"name": "http", "containerPort": HTTP_PORT},
            {"name": "grpc", "containerPort": GRPC_PORT},
        ],
        # It is up once every component has a replica, which may take as long as loading does.
        "startupProbe": probe("/healthz", periodSeconds=5, failureThreshold=LOADS_S // 5),
        "readinessProbe": probe("/readyz", periodSeconds=5, timeoutSeconds=3, failureThreshold=2),
        "livenessProbe": probe("/healthz", periodSeconds=20, failureThreshold=6, timeoutSeconds=10),
        "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}},
    }


def probe(path: str, **timing: int) -> Object:
    """An HTTP probe."""
    return {"httpGet": {"path": path, "port": "http"}, **timing}


def service(naming: Naming) -> Object:
    """What clients, or an ingress, talk to."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": naming.metadata(PART),
        "spec": {
            "selector": naming.labels(PART),
            "ports": [
                {"name": "http", "port": 80, "targetPort": "http", "appProtocol": "http"},
                {
                    "name": "grpc",
                    "port": GRPC_PORT,
                    "targetPort": "grpc",
                    "appProtocol": "kubernetes.io/h2c",
                },
            ],
        },
    }


def policy(naming: Naming) -> Object:
    """Everybody may come to the doors, which ask for a key."""
    ports = [{"protocol": "TCP", "port": HTTP_PORT}, {"protocol": "TCP", "port": GRPC_PORT}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": naming.metadata(PART),
        "spec": {
            "podSelector": {"matchLabels": naming.labels(PART)},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": ports}],
        },
    }
