"""PDFium in a process of its own, which `pdf.pages` starts: what a document does here (run for
ever, fill the memory, break PDFium) ends this process and nothing else.

On its standard input come a line of settings, the document, and a line for each page that is
wanted; a line of JSON answers each, behind that of a drawn page its pixels.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

import pypdfium2  # pyright: ignore[reportMissingTypeStubs]

MAX_SIDE = 4096
MAX_LETTERS = 1_000_000
_POINTS_PER_INCH = 72
_pdfium: Any = pypdfium2


def main() -> None:
    """Serve one document until nobody asks any more."""
    asked = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read(asked["bytes"])
    resource.setrlimit(resource.RLIMIT_AS, (asked["memory_bytes"],) * 2)
    _more_time(asked["page_s"])
    try:
        document = _pdfium.PdfDocument(data)
        _say({"count": len(document)})
        for index in range(len(document)):
            if not sys.stdin.buffer.readline():
                return
            _more_time(asked["page_s"])
            _say(*_page(document[index], asked))
    except _pdfium.PdfiumError as error:
        _say({"error": str(error)})
    except MemoryError:
        _say({"error": "memory"})


def _more_time(seconds: int) -> None:
    """So much of the processor's time from now on; then the system ends this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    at = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (at, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _page(page: Any, asked: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """A page's text, or its pixels where it has too little text."""
    text = page.get_textpage().get_text_bounded().replace("\r\n", "\n").strip()
    if len(text) > MAX_LETTERS:
        return {"error": f"a page has {len(text)} letters; at most {MAX_LETTERS} are read"}, b""
    if sum(letter.isalnum() for letter in text) >= asked["fewest_letters"]:
        return {"text": text}, b""
    scale = min(asked["dpi"] / _POINTS_PER_INCH, MAX_SIDE / max(*page.get_size(), 1))
    drawn = page.render(scale=scale, rev_byteorder=True)
    facts = {"width": drawn.width, "height": drawn.height, "stride": drawn.stride}
    page.close()
    return facts, bytes(drawn.buffer)


def _say(answer: dict[str, Any], pixels: bytes = b"") -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + pixels)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
