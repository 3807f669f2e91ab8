"""Where results of files go."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.components.errors import BadInput
from motet.streaming.targets import targets


def test_a_result_is_named_after_its_file():
    talk = Path("in/talk.wav")
    assert targets([talk], "srt", None) == {talk: Path("in/talk.srt")}
    assert targets([talk], "verbose_json", Path("out")) == {talk: Path("out/talk.json")}


def test_files_of_one_stem_keep_their_suffixes():
    files = [Path("talk.wav"), Path("talk.mp4"), Path("other.mp4")]
    assert [str(place) for place in targets(files, "vtt", Path("out")).values()] == [
        "out/talk.wav.vtt",
        "out/talk.mp4.vtt",
        "out/other.vtt",
    ]


def test_two_results_never_have_one_place():
    with pytest.raises(BadInput, match="both become"):
        targets([Path("a/talk.wav"), Path("b/talk.wav")], "text", Path("out"))
    files = [Path("talk.wav"), Path("talk.mp4"), Path("talk.wav.mp3")]
    with pytest.raises(BadInput, match="both become"):
        targets(files, "text", None)
