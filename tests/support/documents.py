"""Documents made by the tests: drawn lines as a picture or a scan, a PDF with a text layer."""

from __future__ import annotations

import io

from PIL import Image as Picture
from PIL import ImageDraw, ImageFont


def drawn(*lines: str) -> Picture.Image:
    image = Picture.new("RGB", (720, 60 + 70 * len(lines)), "white")
    pen = ImageDraw.Draw(image)
    for n, line in enumerate(lines):
        pen.text((40, 30 + 70 * n), line, fill="black", font=ImageFont.load_default(size=40))
    return image


def encoded(image: Picture.Image, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def text_pdf(*texts: str) -> bytes:
    """A PDF with a text layer, a page for each text, written by hand."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(texts))).encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(texts)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(texts):
        stream = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
        page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R" % (
            5 + 2 * n
        )
        objects += [
            page + b" /Resources << /Font << /F1 3 0 R >> >> >>",
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        ]
    return written(*objects)


def written(*objects: bytes) -> bytes:
    """A PDF of these objects, numbered from 1 on; the first is its catalogue."""
    out, places = bytearray(b"%PDF-1.4\n"), list[int]()
    for n, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (n, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size, start = len(objects) + 1, len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % size + table
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF"
    return bytes(out + end % (size, start))
