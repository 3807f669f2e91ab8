"""Diarization by clustering: its mathematics, its names, and its error rate on real speech."""

from __future__ import annotations

import importlib.util
import threading
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from pydantic import ValidationError
from running import stream

from motet.components.base import Context, Setup
from motet.components.diarize.cluster import ClusterDiarizer
from motet.components.diarize.diarizer import Diarization, with_speakers
from motet.components.diarize.label import label, letter, names
from motet.components.diarize.spectral import SpeakerCount, cluster
from motet.components.diarize.turns import Turn
from motet.components.errors import BadInput
from motet.components.frames import Data, MediaFile, Segment, Word
from motet.components.media_read import MediaReader
from motet.components.transcription import parse_options, segment_json

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("resemblyzer") is None, reason="the weights are in Resemblyzer"
)


def sample(name: str) -> Path:
    """A file of the phone call that pyannote.audio carries, with its reference."""
    spec = importlib.util.find_spec("pyannote.audio")
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip("pyannote.audio (for its sample) is not installed")
    return Path(next(iter(spec.submodule_search_locations))) / "sample" / name


@pytest.fixture(scope="module")
def diarizer() -> ClusterDiarizer:
    made = ClusterDiarizer(Setup("diarize"))
    made.open()
    return made


def find(diarizer: ClusterDiarizer, path: Path, **options) -> Diarization:
    file = MediaFile(str(path), options=options)
    return diarizer.diarize(file, parse_options(options), threading.Event())


@pytest.mark.slow
def test_error_rate_on_a_phone_call(diarizer):
    """Two people on the telephone: under 17.5 % raw, under 2 % with collar and overlap skipped."""
    metrics = pytest.importorskip("pyannote.metrics.diarization")
    core = pytest.importorskip("pyannote.core")
    reference = core.Annotation()
    for line in sample("sample.rttm").read_text().splitlines():
        part = line.split()
        start_s, length_s = float(part[3]), float(part[4])
        reference[core.Segment(start_s, start_s + length_s), len(reference)] = part[7]
    found = core.Annotation()
    for turn in find(diarizer, sample("sample.wav"), speakers=True).turns:
        found[core.Segment(turn.start_s, turn.end_s)] = turn.speaker
    whole = core.Timeline([core.Segment(0, 30)])
    raw = metrics.DiarizationErrorRate()(reference, found, uem=whole)
    fair = metrics.DiarizationErrorRate(collar=0.5, skip_overlap=True)(reference, found, uem=whole)
    assert raw <= 0.175
    assert fair <= 0.02


def test_a_known_number_of_speakers_is_kept(diarizer):
    one = find(diarizer, sample("sample.wav"), min_speakers=1, max_speakers=1)
    three = find(diarizer, sample("sample.wav"), min_speakers=3, max_speakers=3)
    assert len(one.named) == 1
    assert len(three.named) == 3


def test_a_known_voice_gets_its_name(diarizer, tmp_path):
    with wave.open(str(sample("sample.wav"))) as file:
        pcm = np.frombuffer(file.readframes(file.getnframes()), np.int16)
        rate_hz = file.getframerate()
    with wave.open(str(tmp_path / "ada.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(pcm[int(22 * rate_hz) : int(27 * rate_hz)].tobytes())
    known = {"Ada": str(tmp_path / "ada.wav")}
    found = find(diarizer, sample("sample.wav"), known_speakers=known)
    at = {
        moment: found.named[turn.speaker]
        for turn in found.turns
        for moment in (13.0, 24.0)
        if turn.start_s <= moment <= turn.end_s
    }
    assert at[24.0] == "Ada"
    assert at[13.0] != "Ada"


def test_one_speaker_stays_one_however_short(diarizer, say, tmp_path):
    """Few windows make for unsure clusters; they must not become speakers."""
    for text in ("Hello there.", "The ship sailed slowly last night. My brother bought a car."):
        with wave.open(str(tmp_path / "one.wav"), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes(say(text).tobytes())
        assert len(find(diarizer, tmp_path / "one.wav", speakers=True).named) <= 1


def test_two_voices_are_two(diarizer, say, tmp_path):
    import soxr

    first = say("We will meet you at the train station after lunch. My brother bought a car.")
    second = soxr.resample(say("Nobody knows how long the winter will last this year."), 4, 5)
    with wave.open(str(tmp_path / "two.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(np.concatenate([first, np.zeros(6000, np.int16), second]).tobytes())
    found = find(diarizer, tmp_path / "two.wav", speakers=True)
    change_s = (len(first) + 3000) / 16_000
    speakers = [found.named[turn.speaker] for turn in found.turns]
    assert speakers == sorted(speakers)
    assert set(speakers) == {"A", "B"}
    assert found.turns[speakers.index("B")].start_s == pytest.approx(change_s, abs=0.4)


def test_too_short_a_reference_is_bad_input(diarizer, tmp_path):
    with wave.open(str(tmp_path / "short.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(bytes(8000))
    with pytest.raises(BadInput, match=r"0\.2 s long"):
        find(diarizer, sample("sample.wav"), known_speakers={"x": str(tmp_path / "short.wav")})


async def test_the_component_passes_segments_and_labels_the_transcript(diarizer):
    words = tuple(Word(f" w{n}", n * 0.5, n * 0.5 + 0.4) for n in range(58))
    segment = Segment("".join(word.text for word in words), 0.0, 29.0, words=words)
    transcript = Data({"kind": "transcript", "text": "", "segments": [segment_json(segment)]})
    file = MediaFile(str(sample("sample.wav")), options={"speakers": True})
    got = [frame async for frame in diarizer.run(stream(file, segment, transcript), Context())]
    assert got[0] is segment
    shapes = got[1].value["segments"]
    assert got[1].value["speakers"] == ["A", "B"]
    assert [word["word"] for shape in shapes for word in shape["words"]] == [w.text for w in words]
    assert {word["speaker"] for shape in shapes for word in shape["words"]} == {"A", "B"}


async def test_files_that_do_not_ask_pass_untouched(diarizer, tmp_path):
    transcript = Data({"kind": "transcript", "segments": []})
    given = stream(MediaFile(str(tmp_path / "none.wav")), transcript)
    assert [frame async for frame in diarizer.run(given, Context())] == [transcript]


@pytest.mark.parametrize("speakers", [1, 2, 3, 5])
def test_clusters_of_well_parted_voices_are_found(speakers):
    rng = np.random.default_rng(speakers)
    centres = np.linalg.qr(rng.normal(size=(64, speakers)))[0].T
    points = np.repeat(centres, 60, axis=0) + rng.normal(scale=0.04, size=(60 * speakers, 64))
    points = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    found = cluster(points, SpeakerCount(), merge_above=0.9)
    assert len(found) == speakers
    assert np.allclose(np.sort((found @ centres.T).max(axis=1)), 1, atol=0.05)


def test_long_recordings_are_clustered_on_a_sample():
    rng = np.random.default_rng(1)
    points = np.repeat(np.eye(2, 64), 6000, axis=0) + rng.normal(scale=0.04, size=(12_000, 64))
    points = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    assert len(cluster(points, SpeakerCount())) == 2


def test_no_word_is_lost_where_turns_overlap_or_leave_gaps():
    words = tuple(Word(f" {n}", n / 3, n / 3 + 0.2) for n in range(90))
    turns = [Turn(0, 8, 0), Turn(7, 9, 1), Turn(15, 20, 0), Turn(22, 23, 1)]
    segment = Segment("".join(word.text for word in words), 0, 30, words=words)
    done = label([segment], turns, {0: "A", 1: "B"})
    assert [word.text for part in done for word in part.words] == [word.text for word in words]
    assert all(word.speaker in ("A", "B") for part in done for word in part.words)
    assert [part.index for part in done] == list(range(len(done)))


def test_words_go_to_the_turn_that_covers_them_or_lies_nearest():
    words = (Word("a", 1, 2), Word("b", 4.6, 5.4), Word("c", 8.1, 8.4), Word("d", 11, 12))
    turns = [Turn(0, 3, 0), Turn(4, 5, 0), Turn(5, 8, 1), Turn(10, 11.5, 0)]
    done = label([Segment("abcd", 1, 12, words=words)], turns, {0: "A", 1: "B"})
    assert "".join(word.speaker for part in done for word in part.words) == "AABA"


def test_letters_run_past_z():
    assert [letter(n) for n in (0, 1, 25, 26, 27, 701, 702)] == [
        "A", "B", "Z", "AA", "AB", "ZZ", "AAA",
    ]  # fmt: skip


def test_each_known_voice_names_one_speaker():
    centroids = np.eye(3, 4, dtype=np.float32)
    voice = np.array([0.8, 0.6, 0, 0], np.float32)
    turns = [Turn(0, 1, 1), Turn(1, 2, 0), Turn(2, 3, 2)]
    assert names(turns, centroids, {"Ada": voice}) == {0: "Ada", 1: "A", 2: "B"}


def test_a_transcript_without_speech_stays_as_it_is():
    done = with_speakers({"kind": "transcript", "segments": []}, Diarization([], {}))
    assert done.value["segments"] == []
    assert done.value["speakers"] == []


@pytest.mark.parametrize(
    "options", [{"hop_s": 0}, {"hop_s": -1}, {"window_s": 0}, {"bridge_s": -1}, {"merge_above": 2}]
)
def test_options_that_would_never_end_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        ClusterDiarizer(Setup("diarize", options=options))


def test_a_reference_is_not_read_beyond_what_may_be(diarizer, tmp_path, monkeypatch):
    path = tmp_path / "long.wav"
    soundfile.write(path, np.zeros(16_000 * 90, np.int16), 16_000)
    read: list[float] = []
    whole = MediaReader.__iter__

    def counted(self: MediaReader) -> Iterator[np.ndarray]:
        for block in whole(self):
            read.append(block.shape[1] / 16_000)
            yield block

    monkeypatch.setattr(MediaReader, "__iter__", counted)
    with pytest.raises(BadInput, match="'ann' is longer; 1 to 30 s are possible"):
        find(diarizer, sample("sample.wav"), known_speakers={"ann": str(path)})
    assert sum(read) < 35
