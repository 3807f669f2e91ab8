"""Bytes inside JSON: base64, and data URLs of it."""

from __future__ import annotations

import base64
import binascii

from ..components.errors import BadInput


def data_of(url: str, where: str, param: str | None = None) -> bytes:
    """The bytes of a data URL; `param` is the field that is blamed, where it isn't `where`.

    Raises:
        BadInput: it is none, or its base64 is broken.
    """
    head, comma, text = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise BadInput(
            f"is no data URL with base64 (data:image/png;base64,…), but {url[:40]!r}",
            where=where,
            param=param or where,
        )
    return decoded(text, where, param)


def decoded(text: str, where: str, param: str | None = None) -> bytes:
    """The bytes of base64, in lines or in one.

    Raises:
        BadInput: it is broken.
    """
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadInput(
            f"the base64 is broken: {error}", where=where, param=param or where
        ) from error
