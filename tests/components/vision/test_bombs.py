"""Documents that are more than they seem: they cost their sender an error, and nobody else."""

from __future__ import annotations

import resource
import zlib

import numpy as np
import pytest
from documents import encoded, text_pdf, written
from PIL import Image as Picture

from motet.components.errors import BadInput
from motet.components.vision import pdf

MIB = 1024 * 1024
pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(pdf, "PAGE_S", 1)
    monkeypatch.setattr(pdf, "MEMORY_BYTES", 512 * MIB)


def stream(data: bytes, facts: bytes = b"/Filter/FlateDecode") -> bytes:
    return b"<<%s/Length %d>>stream\n%s\nendstream" % (facts, len(data), data)


def deflated(size: int, line: bytes = b"\0") -> bytes:
    squeeze = zlib.compressobj(9)
    block = line * (MIB // len(line))
    made = [squeeze.compress(block) for _ in range(size // MIB)]
    return b"".join(made) + squeeze.flush()


def page(
    content: bytes, *more: bytes, resources: bytes = b"", box: bytes = b"0 0 200 200"
) -> bytes:
    """A PDF of one page with that content; further objects are numbered from 5 on."""
    return written(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[%s]/Contents 4 0 R/Resources<<%s>>>>"
        % (box, resources),
        content,
        *more,
    )


def calling(depth: int) -> bytes:
    """A drawing that calls a drawing ten times, which calls one ten times, and so on."""
    forms = [
        stream(
            zlib.compress(
                b"/F%d Do " % (level + 1) * 10 if level + 1 < depth else b"0 0 m 9 9 l S"
            ),
            b"/Filter/FlateDecode/Type/XObject/Subtype/Form/BBox[0 0 200 200]"
            b"/Resources<</XObject<</F%d %d 0 R>>>>" % (level + 1, 6 + level),
        )
        for level in range(depth)
    ]
    resources = b"/XObject<</F0 5 0 R>>"
    return page(stream(zlib.compress(b"/F0 Do")), *forms, resources=resources)


BOMBS = {
    "gigabytes of nothing": lambda: page(stream(deflated(768 * MIB))),
    "packed twice": lambda: page(
        stream(zlib.compress(deflated(768 * MIB), 9), b"/Filter[/FlateDecode/FlateDecode]")
    ),
    "text without end": lambda: page(stream(deflated(200 * MIB, b"BT /F 9 Tf (aaaa) Tj ET\n"))),
    "drawings that call drawings": lambda: calling(12),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_is_refused_in_bounded_time_and_memory(kind):
    data = BOMBS[kind]()
    assert len(data) < 3 * MIB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BadInput, match=r"PDF can't be read: (it takes over|.*memory)") as refused:
        list(pdf.pages(data))
    assert refused.value.param == "file"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200 * 1024, "it was unpacked here"
    assert [one.text for one in pdf.pages(text_pdf("A page that is read after it"))]


@pytest.mark.parametrize("box", [b"0 0 1e30 1e30", b"0 0 20000000 1"])
def test_pages_of_any_size_are_drawn_small(box):
    (drawn_page,) = pdf.pages(page(stream(zlib.compress(b"")), box=box))
    assert drawn_page.pixels is not None
    assert max(drawn_page.pixels.shape) <= 4096


def test_pages_that_hold_themselves_are_refused():
    tree = b"<</Type/Pages/Kids[2 0 R 2 0 R]/Count 9>>"
    with pytest.raises(BadInput, match="damaged"):
        list(pdf.pages(written(b"<</Type/Catalog/Pages 2 0 R>>", tree)))


def test_a_scan_keeps_its_colours():
    (scan,) = pdf.pages(encoded(Picture.new("RGB", (333, 200), (250, 5, 10)), "PDF"))
    assert scan.pixels is not None
    assert np.abs(scan.pixels[50, 50].astype(int) - (250, 5, 10)).max() < 8
