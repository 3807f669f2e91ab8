"""The servers that help a call find its way (STUN, TURN), as settings name them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...components.errors import Flaw, SpecError

SHAPES = "stun:HOST[:PORT], turn:USER:PASSWORD@HOST[:PORT][?transport=tcp], or turns:…"

_SERVER = re.compile(
    r"(?P<scheme>stun|turn|turns):(?:(?P<user>[^:@]+):(?P<password>[^@]+)@)?"
    r"(?P<place>[^:@?]+(?::\d+)?(?:\?transport=(?:udp|tcp))?)"
)


@dataclass(frozen=True, slots=True)
class IceServer:
    """One server: its URL without the account, and that."""

    url: str
    user: str | None = None
    password: str | None = None

    @property
    def finds(self) -> str:
        """The type of the candidates that it is asked for."""
        return "srflx" if self.url.startswith("stun:") else "relay"


def ice_servers(texts: Sequence[str]) -> list[IceServer]:
    """The servers that these settings name: at most one for STUN and one for TURN, since the
    library asks no more.

    Raises:
        SpecError: one has another shape, lacks its account, or there are too many.
    """
    servers = [_server(text) for text in texts]
    schemes = [server.url.partition(":")[0].rstrip("s") for server in servers]
    for scheme in ("stun", "turn"):
        if schemes.count(scheme) > 1:
            raise _wrong(f"{schemes.count(scheme)} {scheme} servers; possible: one")
    return servers


def _server(text: str) -> IceServer:
    found = _SERVER.fullmatch(text)
    if found is None:
        # The text may hold a password: it isn't repeated.
        raise _wrong(f"a server isn't of the form {SHAPES}")
    scheme, user = found["scheme"], found["user"]
    if (scheme == "stun") is not (user is None):
        raise _wrong(f"a {scheme} server {'needs an' if user is None else 'has no'} account")
    return IceServer(f"{scheme}:{found['place']}", user, found["password"])


def _wrong(message: str) -> SpecError:
    return SpecError([Flaw("ice_servers", message)], file="settings")
