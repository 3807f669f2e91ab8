"""Pictures as users send them, opened safely: bytes to RGB pixels."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from ..errors import BadInput

Pixels = NDArray[np.uint8]
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
MAX_PIXELS = 64_000_000
MAX_ASPECT = 200


@dataclass(frozen=True, slots=True)
class Size:
    """Width and height in pixels, as the picture is shown."""

    width: int
    height: int


def size_of(data: bytes) -> Size:
    """The size that a picture's header says, turned as its EXIF says.

    Raises:
        BadInput: it is no picture, too large, or too narrow.
    """
    with opened(data) as image:
        turned = image.getexif().get(0x0112, 1) >= 5
        width, height = image.size[::-1] if turned else image.size
        return Size(width, height)


def decode(data: bytes) -> Pixels:
    """RGB of shape (height, width, 3), turned as its EXIF says, transparency over white; of an
    animation the first picture, of 16-bit greys the upper 8 bits.

    Raises:
        BadInput: it can't be decoded.
    """
    with opened(data) as image:
        turned = ImageOps.exif_transpose(image)
        if turned.mode.startswith("I;16"):
            # Pillow's own conversion cuts at 255, which leaves white.
            turned = Image.fromarray((np.asarray(turned) >> 8).astype(np.uint8))
        if turned.mode in ("I", "F"):
            raise _bad(f"a picture of mode {turned.mode} is not possible; 8 and 16 bits are")
        if turned.mode in ("RGBA", "LA", "PA") or "transparency" in turned.info:
            shown = turned.convert("RGBA")
            paper = Image.new("RGBA", shown.size, "white")
            turned = Image.alpha_composite(paper, shown)
        return np.asarray(turned.convert("RGB"))


@contextmanager
def opened(data: bytes) -> Generator[Image.Image]:
    """The picture, its header read; decoding errors inside become `BadInput` too."""
    try:
        with warnings.catch_warnings():
            # Its size is checked here, against a bound of our own.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=FORMATS)
        with image:
            _check(image.size)
            yield image
    except Image.DecompressionBombError as error:
        raise _bad(f"{error}; at most {MAX_PIXELS // 1_000_000} million are read") from error
    except UnidentifiedImageError as error:
        raise _bad(
            f"{len(data)} bytes that start with {data[:4].hex() or 'nothing'} are no picture;"
            f" {', '.join(FORMATS)} are read"
        ) from error
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise _bad(f"the picture is damaged: {str(error)[:100]}") from error


def _check(size: tuple[int, int]) -> None:
    width, height = size
    if width * height > MAX_PIXELS or min(size) < 1:
        raise _bad(f"{width} x {height} pixels; at most {MAX_PIXELS // 1_000_000} million are read")
    if max(size) > MAX_ASPECT * min(size):
        raise _bad(f"{width} x {height} is too narrow; at most {MAX_ASPECT} to 1 is possible")


def _bad(message: str) -> BadInput:
    return BadInput(message, where="image", param="messages")


def digest_of(*parts: bytes | str | Pixels) -> str:
    """A hash of bytes, texts and arrays, each with its length."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        data = raw if isinstance(raw, bytes) else np.ascontiguousarray(raw).reshape(-1).data
        shape = "" if isinstance(raw, bytes) else str(raw.shape)
        digest.update(f"{len(data)} {shape};".encode())
        digest.update(data)
    return digest.hexdigest()
