"""`motet deploy kubernetes` and `motet deploy ray`: manifests, to standard output."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .output import Commands, Group, write

if TYPE_CHECKING:
    from ...pipelines import Graph
    from ...pipelines.deploy.kubernetes import DeploySettings


def add(commands: Commands) -> None:
    """`motet deploy`."""
    command = commands.add_parser("deploy", help="manifests for a cluster")
    kinds = Group(command, "WHERE")
    one = kinds.add_parser("kubernetes", help="manifests for `kubectl apply -f -`, with KEDA")
    one.add_argument(
        "--no-surge", action="store_true", help="no spare GPU: stop pods before new ones start"
    )
    one.add_argument(
        "--no-deletion-cost",
        action="store_true",
        help="components get no right to tell which of their pods has the fewest runs",
    )
    one.add_argument("--prometheus-url", help="what KEDA asks")
    one.set_defaults(command=run_kubernetes)
    other = kinds.add_parser("ray", help="the same with a RayService, for KubeRay")
    other.set_defaults(command=run_ray)
    for kind in (one, other):
        common(kind)


def common(command: argparse.ArgumentParser) -> None:
    """Arguments of both."""
    command.add_argument("file", metavar="FILE", help="pipeline file")
    command.add_argument(
        "--image", required=True, help="container image that has `motet` and what the file needs"
    )
    command.add_argument("--namespace", default="default", help="of all objects (default)")
    command.add_argument(
        "--keys-secret",
        default="motet-keys",
        help="Secret (motet-keys) with the entries api-keys, metrics-key, ephemeral-secret (32"
        " random letters, which seal ephemeral keys for all gateways), and admin-keys if wanted",
    )
    command.add_argument(
        "--tls-secret",
        help="ca.crt, tls.crt, tls.key for the way to components: a certificate for the names"
        " *.NAMESPACE.svc (kubernetes) or motet-PIPELINE (ray)",
    )
    command.add_argument("--models-claim", help="volume claim with models, mounted at /models")
    command.add_argument(
        "--node-image",
        action="append",
        default=[],
        metavar="NODE=IMAGE",
        help="another image for a node, one for its GPU, say; repeatable",
    )
    command.add_argument("--gateways", type=int, default=1, help="pods at the doors (1)")
    command.add_argument(
        "--canary",
        metavar="FILE",
        help="a new version of FILE: components that differ in it run beside the others, their"
        " nodes are named NODE-canary for --node-image; how to begin it is printed on top",
    )


def settings_of(parsed: argparse.Namespace, **more: Any) -> DeploySettings:
    """What the arguments of both say."""
    from ...pipelines.deploy.kubernetes import DeploySettings

    names = ("image", "namespace", "keys_secret", "tls_secret", "models_claim", "gateways")
    given = {name: getattr(parsed, name) for name in names}
    return DeploySettings(**given, node_images=images(parsed.node_image), **more)


def run_kubernetes(parsed: argparse.Namespace) -> int:
    """Print the manifests."""
    from ...pipelines.deploy.canary import guide
    from ...pipelines.deploy.kubernetes import CANARYS_END, Naming, manifests
    from ...pipelines.deploy.text import render

    more = {"prometheus_url": parsed.prometheus_url} if parsed.prometheus_url else {}
    settings = settings_of(
        parsed, surge=not parsed.no_surge, deletion_cost=not parsed.no_deletion_cost, **more
    )
    graph, canary = graphs(parsed)
    if canary is not None:
        write(guide(graph, canary, settings, Naming.target, CANARYS_END).rstrip())
    write(render(manifests(graph, settings, canary=canary)).rstrip())
    return 0


def graphs(parsed: argparse.Namespace) -> tuple[Graph, Graph | None]:
    """The pipeline and its canary."""
    from ...pipelines import load

    return load(parsed.file), load(parsed.canary) if parsed.canary else None


def run_ray(parsed: argparse.Namespace) -> int:
    """Print the manifests with a RayService."""
    from ...pipelines.deploy.canary import guide
    from ...pipelines.deploy.rayservice import CANARYS_END, application, ray_manifests
    from ...pipelines.deploy.text import render

    settings = settings_of(parsed)
    graph, canary = graphs(parsed)
    if canary is not None:
        write(guide(graph, canary, settings, application, CANARYS_END).rstrip())
    write(render(ray_manifests(graph, settings, canary=canary)).rstrip())
    return 0


def images(given: list[str]) -> dict[str, str]:
    """NODE=IMAGE by node.

    Raises:
        BadInput: one isn't of that form.
    """
    from ...components.errors import BadInput

    found: dict[str, str] = {}
    for one in given:
        node, equals, image = one.partition("=")
        if not (node and equals and image):
            raise BadInput(f"is to be NODE=IMAGE, got {one!r}", where="--node-image")
        found[node] = image
    return found
