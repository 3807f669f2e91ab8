"""Pictures as files: PNG, JPEG or WebP of pixels, and pixels' sizes as clients write them."""

from __future__ import annotations

import base64
import io
import re
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image as pictures

from ...components.errors import BadInput

PictureFormat = Literal["png", "jpeg", "webp"]
FORMATS: tuple[PictureFormat, ...] = ("png", "jpeg", "webp")
MEDIA_TYPES: dict[str, str] = {f"{name}": f"image/{name}" for name in FORMATS}
_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})")


def encoded(
    pixels: NDArray[np.uint8], picture_format: PictureFormat, compression: int | None = None
) -> bytes:
    """The file of uint8 pixels (height, width, 3); `compression` is JPEG's and WebP's quality."""
    out = io.BytesIO()
    options = (
        {} if picture_format == "png" else {"quality": 90 if compression is None else compression}
    )
    pictures.fromarray(np.ascontiguousarray(pixels)).save(out, picture_format.upper(), **options)
    return out.getvalue()


def as_base64(data: bytes) -> str:
    """Base64 without line breaks."""
    return base64.b64encode(data).decode()


def parsed_size(size: str | None) -> tuple[int | None, int | None]:
    """Width and height of "WxH"; None and None of "auto" and of nothing.

    Raises:
        BadInput: it is neither.
    """
    if size is None or size == "auto":
        return None, None
    match = _SIZE.fullmatch(size)
    width, height = map(int, match.groups()) if match is not None else (0, 0)
    if not width or not height:
        raise BadInput(f"is 'WIDTHxHEIGHT' or 'auto', got {size!r:.40}", where="size", param="size")
    return width, height
