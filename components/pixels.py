"""Pictures as users send them, opened safely: bytes to RGB pixels."""

from __future__ import annotations

import io
import struct
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from .errors import BadInput

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


# Pillow takes numbers and their types from the file, and says in many ways that they can't be.
_DAMAGE = (
    *(OSError, SyntaxError, ValueError, EOFError),
    *(TypeError, ArithmeticError, LookupError, struct.error),
)


def decode(data: bytes, *, param: str = "messages") -> Pixels:
    """RGB of shape (height, width, 3), turned as its EXIF says, transparency over white; of an
    animation the first picture, of 16-bit greys the upper 8 bits. Blocks.

    Raises:
        BadInput: it can't be decoded; `param` is the field that brought it.
    """
    with opened(data, param) as turned:
        # Each copy of the largest picture is 256 MB.
        ImageOps.exif_transpose(turned, in_place=True)
        if turned.mode.startswith("I;16"):
            # Pillow's own conversion cuts at 255, which leaves white.
            turned = Image.fromarray((np.asarray(turned) >> 8).astype(np.uint8))
        if turned.mode in ("I", "F"):
            raise _bad(f"a picture of mode {turned.mode} is not possible; 8 and 16 bits are", param)
        if turned.mode in ("RGBA", "LA", "PA") or "transparency" in turned.info:
            turned = _on_white(turned)
        return np.asarray(turned if turned.mode == "RGB" else turned.convert("RGB"))


def _on_white(image: Image.Image) -> Image.Image:
    shown = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", shown.size, "white"), shown).convert("RGB")


@contextmanager
def opened(data: bytes, param: str = "messages") -> Generator[Image.Image]:
    """The picture, its header read; decoding errors inside become `BadInput` too."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _check(image.size, param)
            yield image
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        most = MAX_PIXELS // 1_000_000
        raise _bad(f"{error}; at most {most} million are read", param) from error
    except UnidentifiedImageError as error:
        raise _bad(
            f"{len(data)} bytes that start with {data[:4].hex() or 'nothing'} are no picture;"
            f" {', '.join(FORMATS)} are read",
            param,
        ) from error
    except _DAMAGE as error:
        raise _bad(f"the picture is damaged: {str(error)[:100]}", param) from error


def _check(size: tuple[int, int], param: str) -> None:
    width, height = size
    if width * height > MAX_PIXELS or min(size) < 1:
        most = MAX_PIXELS // 1_000_000
        raise _bad(f"{width} x {height} pixels; at most {most} million are read", param)
    if max(size) > MAX_ASPECT * min(size):
        possible = f"at most {MAX_ASPECT} to 1 is possible"
        raise _bad(f"{width} x {height} is too narrow; {possible}", param)


def _bad(message: str, param: str) -> BadInput:
    return BadInput(message, where="image", param=param)
