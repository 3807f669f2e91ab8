"""What Twilio asks of an HTTP server: the signature of its requests, and an answer in TwiML."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit, urlunsplit
from xml.sax.saxutils import quoteattr

TOKEN_VARIABLE = "TWILIO_AUTH_TOKEN"
SIGNATURE_HEADER = "x-twilio-signature"


def sign(url: str, params: Iterable[tuple[str, str]], token: str) -> str:
    """The signature of a request: HMAC-SHA1 over the URL and the form's fields, sorted by name.

    Source: Twilio, "Webhooks security", validating signatures.
    """
    text = url + "".join(name + value for name, value in sorted(set(params)))
    digest = hmac.new(token.encode(), text.encode(), hashlib.sha1).digest()
    return base64.b64encode(digest).decode()


def is_signed(
    given: str | None, urls: Iterable[str], params: Iterable[tuple[str, str]], token: str
) -> bool:
    """Whether `given` signs one of these forms of the URL; compared in constant time."""
    if not given:
        return False
    fields = list(params)
    expected = [sign(url, fields, token) for url in urls]
    return any(hmac.compare_digest(given.encode(), one.encode()) for one in expected)


def public_urls(url: str, headers: Mapping[str, str]) -> list[str]:
    """The forms in which a caller may have known this URL.

    Behind a proxy that ends TLS the scheme is another; some clients add a slash, and for
    WebSockets either scheme is signed. Forging the headers gains nothing: the token is secret.
    """
    parts = urlsplit(url)
    host = headers.get("x-forwarded-host") or headers.get("host") or parts.netloc
    secure = is_secure(parts.scheme, headers)
    schemes = ("https", "wss") if secure else ("http", "ws")
    bare = parts.path.rstrip("/")
    return [
        urlunsplit((scheme, host, path, parts.query, ""))
        for scheme in schemes
        for path in (bare, f"{bare}/")
    ]


def is_secure(scheme: str, headers: Mapping[str, str]) -> bool:
    """Whether the outside reaches us by TLS, ours or a proxy's."""
    forwarded = headers.get("x-forwarded-proto", "").partition(",")[0].strip()
    return (forwarded or scheme) in ("https", "wss")


def answer(stream_url: str, parameters: Mapping[str, str]) -> str:
    """TwiML that connects the call to our WebSocket, with parameters for its `start` message."""
    children = "".join(
        f"<Parameter name={quoteattr(name)} value={quoteattr(value)}/>"
        for name, value in parameters.items()
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        f"<Response><Connect><Stream url={quoteattr(stream_url)}>{children}</Stream></Connect>"
        "</Response>"
    )
