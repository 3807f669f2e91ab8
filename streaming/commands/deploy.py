"""`motet deploy kubernetes`: manifests of a pipeline, to standard output."""

from __future__ import annotations

import argparse

from .output import Commands, write


def add(commands: Commands) -> None:
    """`motet deploy`."""
    command = commands.add_parser("deploy", help="manifests for a cluster")
    kinds = command.add_subparsers(required=True, metavar="WHERE")
    one = kinds.add_parser("kubernetes", help="manifests for `kubectl apply -f -`, with KEDA")
    one.add_argument("file", metavar="FILE", help="pipeline file")
    one.add_argument("--image", required=True, help="container image that has `motet`")
    one.add_argument("--namespace", default="default")
    one.add_argument(
        "--keys-secret", default="motet-keys", help="entries api-keys, metrics-key, admin-keys"
    )
    one.add_argument("--tls-secret", help="ca.crt, tls.crt, tls.key: mutual TLS to components")
    one.add_argument("--prometheus-url", help="what KEDA asks")
    one.add_argument("--models-claim", help="volume claim with models, mounted at /models")
    one.add_argument(
        "--node-image",
        action="append",
        default=[],
        metavar="NODE=IMAGE",
        help="another image for a node, one with what GPUs need, say; repeatable",
    )
    one.add_argument(
        "--gateways",
        type=int,
        default=1,
        help="pods at the doors (1); an ephemeral key is good at the one that made it",
    )
    one.add_argument("--no-surge", action="store_true", help="no spare GPU: stop pods first")
    one.add_argument(
        "--no-deletion-cost",
        action="store_true",
        help="components get no right to tell which of their pods has the fewest runs",
    )
    one.set_defaults(command=run_kubernetes)


def run_kubernetes(parsed: argparse.Namespace) -> int:
    """Print the manifests."""
    from ...pipelines import load
    from ...pipelines.deploy import DeploySettings, manifests, render

    names = ("image", "namespace", "keys_secret", "tls_secret", "models_claim", "gateways")
    given = {name: getattr(parsed, name) for name in names}
    if parsed.prometheus_url:
        given["prometheus_url"] = parsed.prometheus_url
    settings = DeploySettings(
        **given,
        node_images=images(parsed.node_image),
        surge=not parsed.no_surge,
        deletion_cost=not parsed.no_deletion_cost,
    )
    write(render(manifests(load(parsed.file), settings)).rstrip())
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
