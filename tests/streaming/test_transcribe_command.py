"""`motet transcribe` and `motet jobs` as a shell runs them."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import wave
from pathlib import Path

import numpy as np
import pytest
import soxr
import yaml
from serving import serving

from motet.components.asr.checks import normalized
from motet.components.asr.file_decode import ChunkDecoder
from motet.components.models import is_installed
from motet.pipelines import load
from motet.streaming.cli import main

hibari = pytest.importorskip("hibari")
pytestmark = [
    pytest.mark.skipif(not is_installed("whisper-tiny-en"), reason="the weights aren't installed"),
    pytest.mark.timeout(120),
]

FOX = "The quick brown fox jumps over the lazy dog."
SEA = "The ship sailed slowly across the ocean last night."


@pytest.fixture(scope="module")
def speech():
    voice = hibari.Hibari()

    def write(path: Path, *texts: str) -> Path:
        pause = np.zeros(24_000)
        parts = [
            soxr.resample(np.append(voice(text, seed=0), pause), 24_000, 16_000) for text in texts
        ]
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes((np.concatenate(parts) * 25_000).astype("<i2").tobytes())
        return path

    return write


@pytest.fixture
def pipeline(tmp_path) -> str:
    asr = {"use": "asr/file", "model": "whisper-tiny-en", "options": {"beam_size": 1}}
    nodes = {"asr": asr, "diarize": {"use": "diarize/cluster"}}
    edges = ["input -> asr -> diarize -> output", "input -> diarize"]
    file = tmp_path / "transcribe.yaml"
    file.write_text(yaml.safe_dump({"name": "transcribe", "nodes": nodes, "edges": edges}))
    return str(file)


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


def test_several_files_become_subtitles_and_a_bad_one_costs_nobody(
    speech, pipeline, tmp_path, capsys
):
    first = speech(tmp_path / "a.wav", FOX)
    second = speech(tmp_path / "b.wav", SEA)
    broken = tmp_path / "c.wav"
    broken.write_bytes(b"nothing")
    out = tmp_path / "out"
    arguments = (first, second, broken, "--format", "srt", "--speakers", "--out", out)
    assert run("transcribe", *arguments, "--pipeline", pipeline) == 1
    cues = (out / "a.srt").read_text().splitlines()
    said = [line for line in cues if line and not line[0].isdigit()]
    assert said[0].startswith("A: ")
    assert normalized(" ".join(said).replace("A: ", "")) == normalized(FOX)
    assert (out / "b.srt").read_text().startswith("1\n00:00:0")
    assert "c.wav" in capsys.readouterr().err
    assert sorted(path.name for path in out.iterdir()) == ["a.srt", "b.srt"]


def test_a_folder_that_cannot_be_written_to_is_said(speech, pipeline, tmp_path, capsys):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, no folder")
    file = speech(tmp_path / "a.wav", FOX)
    assert run("transcribe", file, "--out", blocked, "--pipeline", pipeline) == 1
    said = capsys.readouterr().err
    assert str(blocked) in said
    assert "Traceback" not in said


def test_an_interrupted_file_goes_on_where_it_stopped(speech, pipeline, tmp_path, monkeypatch):
    file = speech(tmp_path / "a.wav", FOX, SEA)
    decoded: list[str] = []
    decode = ChunkDecoder.decode

    def dying(self, chunks, *rest):
        decoded.extend(chunk.key for chunk in chunks)
        if len(decoded) > 1:
            raise RuntimeError("the power is gone")
        return decode(self, chunks, *rest)

    spec = yaml.safe_load(Path(pipeline).read_text())
    spec["nodes"]["asr"]["options"] |= {"batch": 1, "first_batch": 1}
    spec["nodes"]["asr"]["resources"] = {"cpus": 1}
    Path(pipeline).write_text(yaml.safe_dump(spec))
    monkeypatch.setattr(ChunkDecoder, "decode", dying)
    assert run("transcribe", file, "--pipeline", pipeline) == 1
    assert (tmp_path / ".a.wav.motet-part").is_file()
    done = decoded[:1]
    decoded.clear()
    monkeypatch.setattr(ChunkDecoder, "decode", decode)

    def counting(self, chunks, *rest):
        decoded.extend(chunk.key for chunk in chunks)
        return decode(self, chunks, *rest)

    monkeypatch.setattr(ChunkDecoder, "decode", counting)
    assert run("transcribe", file, "--pipeline", pipeline) == 0
    assert normalized((tmp_path / "a.txt").read_text()) == normalized(f"{FOX} {SEA}")
    assert not set(decoded) & set(done), "a kept chunk was decoded again"
    assert not (tmp_path / ".a.wav.motet-part").exists()


def test_what_is_done_stays_unless_forced(speech, pipeline, tmp_path, capsys):
    file = speech(tmp_path / "a.wav", FOX)
    (tmp_path / "a.txt").write_text("mine")
    assert run("transcribe", file, "--pipeline", pipeline) == 0
    assert (tmp_path / "a.txt").read_text() == "mine"
    assert "--force" in capsys.readouterr().err


def test_two_files_never_become_one(pipeline, tmp_path, capsys):
    same = [tmp_path / folder / "talk.wav" for folder in ("a", "b")]
    for file in same:
        file.parent.mkdir()
        file.touch()
    arguments = ["transcribe", *map(str, same), "--out", str(tmp_path), "--pipeline", pipeline]
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert all(repr(str(file)) in said for file in same)
    assert not list(tmp_path.glob("talk*"))


def test_wrong_options_end_it_before_it_begins(pipeline, capsys):
    wrong = ("--min-speakers", 5, "--max-speakers", 2)
    assert run("transcribe", "x.wav", *wrong, "--pipeline", pipeline) == 2
    said = capsys.readouterr().err
    assert said.startswith("min_speakers 5 is above")
    assert "known options" not in said, "none is unknown"


@pytest.mark.parametrize("bound", ["--min-speakers", "--max-speakers"])
def test_a_number_of_speakers_asks_for_speakers(bound, pipeline, capsys):
    arguments = ("x.wav", bound, 2, "--format", "json", "--pipeline", pipeline)
    assert run("transcribe", *arguments) == 2
    assert "speakers go with" in capsys.readouterr().err


def test_a_folder_is_named_as_one(pipeline, tmp_path, capsys):
    assert run("transcribe", tmp_path, "--stdout", "--pipeline", pipeline) == 1
    assert f"{str(tmp_path)!r} is a folder" in capsys.readouterr().err


def test_jobs_are_submitted_listed_fetched_and_deleted(speech, pipeline, tmp_path, capsys):
    pytest.importorskip("procrastinate")
    file = speech(tmp_path / "a.wav", FOX)
    data = Path(tempfile.mkdtemp(prefix="motet-data-"))
    data.chmod(0o755)
    with serving(load(pipeline), data_dir=data) as address:
        at = ("jobs", "--server", address)
        assert run(*at, "submit", file, "--option", 'language="en"') == 0
        job = capsys.readouterr().out.split()[0]
        state = ""
        while state not in ("completed", "failed"):
            assert run(*at, "get", job) == 0
            state = json.loads(capsys.readouterr().out)["state"]
        assert run(*at, "get", job, "--format", "text") == 0
        assert normalized(capsys.readouterr().out) == normalized(FOX)
        made = (file, "--output", tmp_path / "made", "--format", "srt", "--metadata", "show=1")
        assert run(*at, "submit", *made) == 0
        assert (tmp_path / "made/a.srt").read_text().startswith("1\n00:00:0")
        capsys.readouterr()
        assert run(*at, "submit", *made) == 2, "it would write over it"
        assert "--force" in capsys.readouterr().err
        assert run(*at, "submit", file, "--option", "language=xx") == 2
        assert "language 'xx'; known: en" in capsys.readouterr().err
        assert run(*at, "list") == 0
        assert job in capsys.readouterr().out
        assert run(*at, "delete", job) == 0
        assert run(*at, "get", job, "job_none") == 2
        assert capsys.readouterr().err.count("no job") == 2
        assert run(*at, "cancel", "--metadata", "show=2") == 0
        assert "0 cancelled" in capsys.readouterr().err
        assert run(*at, "cancel") == 2
        assert run(*at, "cancel", job, "--all") == 2
    assert run(*at, "list") == 2
    assert capsys.readouterr().err.count("no server answers at http") == 1
    os.kill(int((data / "postgres/postmaster.pid").read_text().split()[0]), signal.SIGINT)
