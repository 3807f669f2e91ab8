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
    one.add_argument("--keys-secret", default="motet-keys", help="entries api-keys, metrics-key")
    one.add_argument("--tls-secret", help="ca.crt, tls.crt, tls.key: mutual TLS to components")
    one.add_argument("--prometheus-url", help="what KEDA asks")
    one.add_argument("--models-claim", help="volume claim with models, mounted at /models")
    one.add_argument("--gateways", type=int, default=2, help="pods at the doors")
    one.add_argument("--no-surge", action="store_true", help="no spare GPU: stop pods first")
    one.set_defaults(command=run_kubernetes)


def run_kubernetes(parsed: argparse.Namespace) -> int:
    """Print the manifests."""
    from ...pipelines import load
    from ...pipelines.deploy import DeploySettings, manifests, render

    names = ("image", "namespace", "keys_secret", "tls_secret", "models_claim", "gateways")
    given = {name: getattr(parsed, name) for name in names}
    if parsed.prometheus_url:
        given["prometheus_url"] = parsed.prometheus_url
    settings = DeploySettings(**given, surge=not parsed.no_surge)
    write(render(manifests(load(parsed.file), settings)).rstrip())
    return 0
