"""What offers may be, servers for ICE, and the address from outside."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest

from motet.components.errors import BadInput, SpecError
from motet.streaming.webrtc.ice import IceServer, ice_servers
from motet.streaming.webrtc.sdp import MAX_CANDIDATES, MAX_SDP_BYTES, check_offer, with_address

CANDIDATE = "a=candidate:1 1 udp 2130706431 10.0.0.7 5000 typ host"
OFFER = (
    "v=0\r\na=group:BUNDLE 0 1\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=mid:0\r\n"
    "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=mid:1\r\n"
)


@pytest.mark.parametrize(
    ("sdp", "said"),
    [
        ("", "starts with 'v=0'"),
        ('{"sdp": "v=0"}', "starts with 'v=0'"),
        ("v=0\r\n", "offers nothing"),
        ("v=0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n", "offers application"),
        (OFFER + "m=video 9 UDP/TLS/RTP/SAVPF 96\r\n", "possible: one m=audio"),
        (OFFER + "m=audio 9 UDP/TLS/RTP/SAVPF 111\r\n", "possible: one m=audio"),
        (OFFER.replace("a=mid:1", ""), "needs an a=mid"),
        (OFFER.replace("a=mid:1", "a=mid:0"), "needs an a=mid"),
        (OFFER.replace("BUNDLE 0 1", "BUNDLE 0"), "needs an a=mid"),
        (OFFER.replace("a=group:BUNDLE 0 1", ""), "needs an a=mid"),
        (OFFER + "a=x:" + "y" * MAX_SDP_BYTES, "more than 65536 bytes"),
        (OFFER + (CANDIDATE + "\r\n") * (2 * MAX_CANDIDATES + 1), "more than 64 candidates"),
    ],
)
def test_what_no_browser_sends_is_refused(sdp: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        check_offer(sdp)
    assert refused.value.param == "sdp"


def test_what_browsers_send_is_taken() -> None:
    check_offer(OFFER)
    check_offer(OFFER.replace("\r\n", "\n"))
    check_offer("v=0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\n")


def test_the_address_from_outside_is_a_candidate_beside_each_of_ipv4() -> None:
    sdp = f"v=0\r\n{CANDIDATE}\r\na=candidate:2 1 udp 2130706431 fd00::2 5001 typ host\r\n"
    lines = with_address(sdp, IPv4Address("203.0.113.9")).splitlines()
    assert len(lines) == 4
    assert lines[2].endswith("203.0.113.9 5000 typ srflx raddr 10.0.0.7 rport 5000")
    assert int(lines[2].split(" ")[3]) < int(lines[1].split(" ")[3])
    assert with_address(sdp, None) == sdp


def test_servers_for_ice_are_read() -> None:
    assert ice_servers([]) == []
    given = ["stun:stun.example.org", "turn:me:secret@turn.example.org:3478?transport=tcp"]
    assert ice_servers(given) == [
        IceServer("stun:stun.example.org"),
        IceServer("turn:turn.example.org:3478?transport=tcp", "me", "secret"),
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["http://example.org"], "of the form"),
        (["turn:turn.example.org"], "needs an account"),
        (["stun:me:secret@stun.example.org"], "has no account"),
        (["stun:a.example", "stun:b.example"], "2 stun servers"),
        (["turn:a:b@c.example", "turns:a:b@d.example"], "2 turn servers"),
    ],
)
def test_servers_that_can_not_be_asked_are_refused_without_their_password(
    given: list[str], said: str
) -> None:
    with pytest.raises(SpecError, match=said) as refused:
        ice_servers(given)
    assert "secret" not in str(refused.value)
