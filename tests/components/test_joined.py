"""Files in parts: joined once, whole or not at all."""

from __future__ import annotations

import hashlib
import threading

import pytest

from motet.components.errors import MissingRequirement
from motet.components.joined import joined_folder
from motet.components.models import CATALOGUE, locate

DATA = bytes(range(256)) * 9000
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def pieces(tmp_path, monkeypatch):
    monkeypatch.setenv("MOTET_CACHE", str(tmp_path / "cache"))
    parts = [tmp_path / "whole.1", tmp_path / "whole.2"]
    parts[0].write_bytes(DATA[:1_000_000])
    parts[1].write_bytes(DATA[1_000_000:])
    (tmp_path / "config.json").write_text("{}")
    return parts, {"config.json": tmp_path / "config.json"}


def leftovers(tmp_path):
    return [path.name for path in (tmp_path / "cache" / "models").iterdir()]


def test_parts_make_the_whole_once(pieces, tmp_path):
    folder = joined_folder("weights", "model.bin", *pieces, sha256=SHA256)
    assert (folder / "model.bin").read_bytes() == DATA
    assert (folder / "config.json").read_text() == "{}"
    made = (folder / "model.bin").stat().st_mtime_ns
    assert joined_folder("weights", "model.bin", *pieces, sha256=SHA256) == folder
    assert (folder / "model.bin").stat().st_mtime_ns == made
    assert leftovers(tmp_path) == [folder.name]


def test_wrong_parts_leave_nothing_behind(pieces, tmp_path):
    parts, beside = pieces
    with pytest.raises(MissingRequirement, match="SHA-256"):
        joined_folder("weights", "model.bin", parts[::-1], beside, sha256=SHA256)
    assert leftovers(tmp_path) == []


def test_half_a_file_from_elsewhere_is_made_again(pieces):
    folder = joined_folder("weights", "model.bin", *pieces, sha256=SHA256)
    (folder / "model.bin").write_bytes(DATA[:100])
    joined_folder("weights", "model.bin", *pieces, sha256=SHA256)
    assert (folder / "model.bin").read_bytes() == DATA


def test_two_at_once_agree(pieces, tmp_path):
    found = []

    def join():
        found.append(joined_folder("weights", "model.bin", *pieces, sha256=SHA256))

    threads = [threading.Thread(target=join) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert (found[0] / "model.bin").read_bytes() == DATA
    assert leftovers(tmp_path) == [found[0].name]


def test_a_cache_that_cannot_be_written_is_named(pieces, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MOTET_CACHE", str(tmp_path / "file"))
    with pytest.raises(MissingRequirement, match="MOTET_CACHE"):
        joined_folder("weights", "model.bin", *pieces, sha256=SHA256)


def test_the_multilingual_whisper_is_joined():
    if CATALOGUE["whisper-base"].path("whisper-base") is None:
        pytest.skip("its packages aren't installed")
    folder = locate("whisper-base")
    assert {path.name for path in folder.iterdir()} == {
        "model.bin",
        "config.json",
        "tokenizer.json",
        "vocabulary.txt",
    }
