"""Pictures whose files say what can't be."""

from __future__ import annotations

import io
import struct

import pytest
from PIL import Image

from motet.components import pixels
from motet.components.errors import BadInput

STRIP_OFFSETS = 273
TYPES = {"text": 2, "bytes": 7, "fraction": 5, "float": 11}


def typed(tag: int, kind: int) -> bytes:
    """A TIFF whose `tag` has a value of another type."""
    made = io.BytesIO()
    Image.new("L", (4, 4)).save(made, "TIFF")
    data = bytearray(made.getvalue())
    (start,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, start)
    places = range(start + 2, start + 2 + 12 * count, 12)
    (place,) = (at for at in places if struct.unpack_from("<H", data, at)[0] == tag)
    struct.pack_into("<H", data, place + 2, kind)
    return bytes(data)


@pytest.mark.parametrize("kind", TYPES)
def test_a_number_of_another_type_is_the_sender_s_fault(kind: str) -> None:
    with pytest.raises(BadInput, match="damaged") as refused:
        pixels.decode(typed(STRIP_OFFSETS, TYPES[kind]), param="image")
    assert refused.value.param == "image"
