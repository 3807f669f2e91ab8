"""What callers' session descriptions may be, and the address that ours name."""

from __future__ import annotations

import re
from ipaddress import IPv4Address

from ...components.errors import BadInput

MAX_SDP_BYTES = 65_536
MAX_CANDIDATES = 64

_HOST = re.compile(
    r"^a=candidate:(?P<foundation>\S+) 1 udp (?P<priority>\d+) "
    r"(?P<ip>[\d.]+) (?P<port>\d+) typ host",
    re.IGNORECASE,
)


def check_offer(sdp: str) -> None:
    """Refuse what no browser sends, before anything is made for it.

    Raises:
        BadInput: it is too large, or offers other than audio and a data channel.
    """
    if len(sdp.encode()) > MAX_SDP_BYTES:
        raise _wrong(f"more than {MAX_SDP_BYTES} bytes")
    if not sdp.startswith("v=0"):
        raise _wrong("no session description; it starts with 'v=0'")
    lines = sdp.splitlines()
    kinds = [line[2:].split(" ")[0] for line in lines if line.startswith("m=")]
    if kinds.count("audio") != 1 or kinds.count("application") > 1 or len(kinds) > 2:
        raise _wrong(
            f"offers {', '.join(kinds) or 'nothing'};"
            " possible: one m=audio, and one m=application for the data channel"
        )
    mids = sorted(line[6:] for line in lines if line.startswith("a=mid:"))
    bundles = [sorted(line.split()[1:]) for line in lines if line.startswith("a=group:BUNDLE")]
    bundled = bundles == [mids] and len(set(mids)) == len(kinds)
    if not bundled and (len(kinds) > 1 or bundles):
        raise _wrong("each stream needs an a=mid, and one a=group:BUNDLE holds them all")
    if sum(line.startswith("a=candidate:") for line in lines) > MAX_CANDIDATES * len(kinds):
        raise _wrong(f"more than {MAX_CANDIDATES} candidates")


def unusable(error: Exception) -> BadInput:
    """What a description that couldn't be used is answered with."""
    return _wrong(f"can't be used: {error or type(error).__name__}")


def with_address(sdp: str, address: IPv4Address | None) -> str:
    """The description with a further candidate for each of this machine's IPv4 ones: the same port
    at the address that others reach it by."""
    if address is None:
        return sdp
    lines: list[str] = []
    for line in sdp.splitlines():
        lines.append(line)
        found = _HOST.match(line)
        if found is not None:
            # Below the host candidates, as candidates that a STUN server finds are (RFC 8445).
            priority = int(found["priority"]) & 0x00FFFFFF | 100 << 24
            lines.append(
                f"a=candidate:{found['foundation']}p 1 udp {priority} {address} {found['port']}"
                f" typ srflx raddr {found['ip']} rport {found['port']}"
            )
    return "\r\n".join(lines) + "\r\n"


def _wrong(message: str) -> BadInput:
    return BadInput(message, where="sdp", param="sdp")
