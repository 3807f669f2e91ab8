"""Reads the training pictures, their names and keywords from three Debian packages."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np
from fontTools.ttLib import TTFont  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray
from PIL import Image

FONT = Path("/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf")
NAMES = Path("/usr/share/unicode/emoji/emoji-test.txt")
KEYWORDS = Path("/usr/share/unicode/cldr/common/annotations/en.xml")
PACKAGES = {FONT: "fonts-noto-color-emoji", NAMES: "unicode-data", KEYWORDS: "unicode-cldr-core"}

GLYPH_PX = 136

LEFT_OUT_GROUPS = frozenset({"Flags", "Component"})
LEFT_OUT_SUBGROUPS = (
    "arrow keycap alphanum religion zodiac av-symbol gender punctuation currency math warning "
    "transport-sign hand-symbol"
)
_LEFT_OUT_NAMES = re.compile(r"o.clock|-thirty|^Japanese .*(button|symbol)")
_LINE = re.compile(r"^([0-9A-F ]+?)\s*; fully-qualified\s+# \S+ E[\d.]+ (.+)$")


@dataclass(frozen=True, slots=True)
class Glyph:
    """One emoji: its character, English short name, CLDR keywords and Unicode (sub)group."""

    char: str
    name: str
    keywords: tuple[str, ...]
    group: str
    subgroup: str


def require_sources() -> None:
    """Raise FileNotFoundError naming every missing file and the Debian package that brings it."""
    missing = [
        f"{path} (apt-get install {name})" for path, name in PACKAGES.items() if not path.is_file()
    ]
    if missing:
        raise FileNotFoundError("training pictures need: " + ", ".join(missing))


def read_glyphs() -> tuple[list[Glyph], NDArray[np.uint8]]:
    """All usable emoji and their pictures, shape (N, 136, 136, 4), RGBA with straight alpha.

    Only emoji of one code point (plus a variation selector) are used; flags, clock faces and
    most signs are left out, as a small model has better uses for its weights.
    """
    require_sources()
    font: Any = TTFont(FONT)
    cmap = cast("dict[int, str]", font.getBestCmap())
    strike = cast("dict[str, Any]", font["CBDT"].strikeData[0])
    keywords = _read_keywords()
    glyphs: list[Glyph] = []
    pictures: list[NDArray[np.uint8]] = []
    for char, name, group, subgroup in _read_names():
        glyph_name = cmap.get(ord(char), "")
        if glyph_name not in strike:
            continue
        glyphs.append(Glyph(char, name, keywords.get(char, ()), group, subgroup))
        pictures.append(_square(strike[glyph_name].imageData))
    return glyphs, np.stack(pictures)


def _square(png: bytes) -> NDArray[np.uint8]:
    picture = Image.open(io.BytesIO(png)).convert("RGBA")
    canvas = Image.new("RGBA", (GLYPH_PX, GLYPH_PX))
    offset = ((GLYPH_PX - picture.width) // 2, (GLYPH_PX - picture.height) // 2)
    canvas.paste(picture, offset)
    return np.asarray(canvas)


def _read_names() -> list[tuple[str, str, str, str]]:
    found: list[tuple[str, str, str, str]] = []
    group = subgroup = ""
    for line in NAMES.read_text(encoding="utf-8").splitlines():
        if line.startswith("# group: "):
            group = line.removeprefix("# group: ")
        elif line.startswith("# subgroup: "):
            subgroup = line.removeprefix("# subgroup: ")
        elif match := _LINE.match(line):
            chars = [chr(int(code, 16)) for code in match[1].split()]
            name = match[2]
            single = len(chars) == 1 or (len(chars) == 2 and chars[1] == "\ufe0f")
            left_out = group in LEFT_OUT_GROUPS or subgroup in LEFT_OUT_SUBGROUPS.split()
            if single and not left_out and not _LEFT_OUT_NAMES.search(name):
                found.append((chars[0], name.lower(), group, subgroup))
    return found


def _read_keywords() -> dict[str, tuple[str, ...]]:
    keywords: dict[str, tuple[str, ...]] = {}
    for node in ElementTree.parse(KEYWORDS).iter("annotation"):
        if node.get("type") is None and node.text:
            words = tuple(word.strip().lower() for word in node.text.split("|"))
            keywords[node.get("cp", "")] = words
    return keywords
