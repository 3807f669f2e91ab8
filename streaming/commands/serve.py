"""`motet serve`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .output import Commands


def add(commands: Commands) -> None:
    """`motet serve`; each of its arguments is a `MOTET_…` variable too."""
    command = commands.add_parser("serve", help="serve pipelines over HTTP, WebSocket and gRPC")
    command.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="pipeline files, or names of ready-made ones (voice)",
    )
    command.add_argument("--host", help="address to listen at (127.0.0.1)")
    command.add_argument("--port", type=int, help="HTTP and WebSocket port (8000)")
    command.add_argument("--grpc-port", type=int, help="gRPC port (none; usual: 50051)")
    command.add_argument(
        "--runtime",
        choices=["local", "workers", "ray", "rayservice", "remote"],
        help="where components run (local)",
    )
    command.add_argument(
        "--targets", nargs="+", metavar="NODE=HOST:PORT", help="where --runtime remote finds nodes"
    )
    command.add_argument("--hop-tls-dir", type=Path, help="ca.crt, tls.crt, tls.key for the nodes")
    command.add_argument(
        "--keys-file",
        type=Path,
        help="file of `motet keys` (beyond this machine: keys.json in the data folder)",
    )
    command.add_argument(
        "--ephemeral-secret-file",
        type=Path,
        help="what seals ephemeral keys, the same for all servers behind one name: one secret of 32"
        " random characters a line, the first makes keys, all open them; or set"
        " MOTET_EPHEMERAL_SECRET (without either: ephemeral-secret, made beside the keys file)",
    )
    command.add_argument("--allow-origins", nargs="+", help="web origins that may use the server")
    command.add_argument(
        "--ice-servers", nargs="+", metavar="URL", help="STUN and TURN servers for WebRTC calls"
    )
    command.add_argument("--ice-address", help="this machine's address from outside, for WebRTC")
    command.add_argument("--data-dir", type=Path, help="what outlives the process (.motet)")
    command.add_argument("--max-sessions", type=int, help="conversations at once (64)")
    command.add_argument(
        "--shutdown-grace-s", type=float, help="time for running work at exit (30)"
    )
    command.add_argument(
        "--log-content", action="store_true", default=None, help="log what is said"
    )
    command.add_argument(
        "--allow-loopback-urls",
        action="store_true",
        default=None,
        help="webhooks and inputs may point at this machine: for development",
    )
    command.add_argument("--tls-cert", type=Path, help="PEM: serve HTTPS")
    command.add_argument("--tls-key", type=Path, help="PEM: the key of --tls-cert")
    command.set_defaults(command=run_serve)


def run_serve(parsed: argparse.Namespace) -> int:
    """Serve until a signal ends it."""
    from ...pipelines import load
    from ..serve import serve
    from ..settings import Settings, from_environment

    flags = {name: getattr(parsed, name, None) for name in Settings.model_fields}
    settings = from_environment(flags)
    return serve([load(file) for file in parsed.files or ["voice"]], settings)
