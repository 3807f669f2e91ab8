"""Bytes in JSON: what is no base64 is the sender's fault, and nothing of it is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.components.errors import BadInput
from motet.streaming.audio.references import references
from motet.streaming.audio.request import AudioRequest
from motet.streaming.dataurl import data_of
from motet.streaming.images.coding import parsed_size


@pytest.mark.parametrize("url", ["data:image/png;base64,QUJD", "data:image/png;base64,QU\nJD"])
def test_a_data_url_is_its_bytes(url: str) -> None:
    assert data_of(url, "image") == b"ABC"


@pytest.mark.parametrize(
    "url", ["data:image/png;base64,A", "data:image/png;base64,QU!D", "data:,ABC", "QUJD", "", "é"]
)
def test_any_other_text_is_refused_by_its_field(url: str) -> None:
    with pytest.raises(BadInput) as caught:
        data_of(url, "image")
    assert caught.value.param == "image"


async def test_voices_of_speakers_leave_no_file_where_one_can_not_be_read(tmp_path: Path) -> None:
    asked = AudioRequest(
        model="a",
        response_format="diarized_json",
        known_speaker_names=["ada", "bob"],
        known_speaker_references=["data:audio/wav;base64,QUJD", "data:audio/wav;base64,A"],
    )
    with pytest.raises(BadInput, match="bob"):
        await references(asked, tmp_path).__aenter__()
    assert list(tmp_path.iterdir()) == []
    good = asked.model_copy(update={"known_speaker_references": ["data:a/b;base64,QUJD"] * 2})
    async with references(good, tmp_path) as files:
        assert {name: Path(file).read_bytes() for name, file in files.items()} == {
            "ada": b"ABC",
            "bob": b"ABC",
        }
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", ["0x64", "00x64", "64x000", "64", "x", "64x64x64", "1e3x64"])
def test_a_picture_has_a_size(size: str) -> None:
    with pytest.raises(BadInput):
        parsed_size(size)
