"""How the server is set up: addresses, keys and limits, from flags and `MOTET_…` variables."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..components.errors import SpecError
from ..pipelines.spec import flaws_of

PREFIX = "MOTET_"
MIB = 1024 * 1024


class Settings(BaseModel):
    """Settings of one server. Every one can be given as `MOTET_NAME` too; flags win.

    `allow_origins` are the web origins, besides the server's own, whose pages may use it.
    `api_keys` may use what is served, `admin_keys` change it too (`motet reload`, `motet canary`).
    `data_dir` holds what must outlive the process (jobs, uploads, keys).
    `ephemeral_secret` seals ephemeral keys, or what `ephemeral_secret_file` holds, or else a secret
    that is made and kept beside the key file. Servers behind one name need the same one. Several:
    the first makes keys, keys of all of them are good.
    `ice_servers` (stun:HOST, turn:USER:PASSWORD@HOST) help WebRTC calls to find their way;
    `ice_address` is this machine's address from outside, where a router maps ports one to one.
    `log_content` writes what users say and get into the log; off unless asked for.
    `runtime` is where components run: in this process, in worker processes, on Ray (deployed from
    here, or by a RayService as `motet deploy ray` writes it), or remote, at
    the `targets` (NODE=HOST:PORT); `hop_tls_dir` holds ca.crt, tls.crt, tls.key for other hosts.
    `max_body_bytes` bounds what a request holds in memory, `max_upload_bytes` a form with files.
    `job_concurrency` is how many jobs a server runs at once; 0 leaves them to `motet worker`.
    `allow_loopback_urls` lets inputs and webhooks point at this machine, for development.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8000
    grpc_port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    runtime: Literal["local", "workers", "ray", "rayservice", "remote"] = "local"
    targets: tuple[str, ...] = ()
    hop_tls_dir: Path | None = None
    keys_file: Path | None = None
    api_keys: tuple[str, ...] = ()
    admin_keys: tuple[str, ...] = ()
    ephemeral_secret: tuple[str, ...] = ()
    ephemeral_secret_file: Path | None = None
    allow_origins: tuple[str, ...] = ()
    data_dir: Path = Path(".motet")
    ice_servers: tuple[str, ...] = ()
    ice_address: ipaddress.IPv4Address | None = None
    max_sessions: Annotated[int, Field(ge=1)] = 64
    max_sessions_per_key: Annotated[int, Field(ge=1)] = 64
    max_message_bytes: Annotated[int, Field(ge=1024)] = 21 * MIB
    max_body_bytes: Annotated[int, Field(ge=1024)] = 64 * MIB
    max_upload_bytes: Annotated[int, Field(ge=1024)] = 2048 * MIB
    shutdown_grace_s: Annotated[float, Field(ge=0)] = 30.0
    log_content: bool = False
    allow_loopback_urls: bool = False
    input_dir: Path | None = None
    database_url: str | None = None
    job_concurrency: Annotated[int, Field(ge=0)] = 8
    tls_cert: Path | None = None
    tls_key: Path | None = None

    @property
    def url_host(self) -> str:
        """The host as URLs have it: IPv6 addresses in brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def from_environment(
    flags: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> Settings:
    """Settings from flags (None: not given) over environment variables over defaults.

    Raises:
        SpecError: with every value that can't be used, and every unknown `MOTET_…` variable.
    """
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    for name, field in Settings.model_fields.items():
        text = environment.get(PREFIX + name.upper())
        if text is None:
            continue
        many = "tuple" in str(field.annotation)
        values[name] = tuple(filter(None, text.replace(",", " ").split())) if many else text
    values |= {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise SpecError(flaws_of(error), file="settings") from error
