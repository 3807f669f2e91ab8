"""The page's files: nothing from elsewhere, nothing inline, none of them long."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "streaming" / "page"


def test_page_is_self_contained_and_its_files_are_small() -> None:
    for path in PAGE.rglob("*"):
        if path.suffix not in {".js", ".css", ".html", ".svg"}:
            continue
        text = path.read_text()
        assert len(text.splitlines()) < 300, path
        elsewhere = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", text)
        assert set(elsewhere) <= {"http://www.w3.org"}, path
        assert not re.search(r"\sstyle=|<script>|onclick=", text), path
