"""One file on its way: what it keeps in memory, and what it tells of hours in which nobody speaks.

Neither the VAD nor the decoder is a model here: loud is speech, and each chunk says one word.
"""

from __future__ import annotations

import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from filefakes import ENGINE, LoudnessVad, recording

from motet.components.asr.file_decode import ChunkText
from motet.components.asr.file_lanes import Lanes
from motet.components.asr.file_options import FileOptions
from motet.components.asr.file_work import FileWork, Models
from motet.components.frames import MediaFile, Progress, Segment, Word


class OneWord:
    """A decoder that takes no time."""

    def decode(self, chunks, ask, vote, stop):
        vote.choose([{"en": 1.0}] * len(chunks), [1.0] * len(chunks))
        word = Word(" word.", 0.3, 0.6, 1.0)
        return [ChunkText("word.", "en", words=(word,)) for _ in chunks]


@pytest.fixture
def lanes():
    with ThreadPoolExecutor(2) as decoders, ThreadPoolExecutor(2) as readers:
        yield Lanes(2, decoders, readers)


def work_on(file: MediaFile, lanes: Lanes, decoder=None) -> FileWork:
    models = Models(ENGINE, decoder or OneWord(), LoudnessVad())
    return FileWork(models, lanes, FileOptions(batch=1), file, {})


async def peak_bytes(file: MediaFile, lanes: Lanes) -> tuple[int, int]:
    """Most memory that transcribing takes, and how many segments come of it."""
    tracemalloc.start()
    try:
        got = [isinstance(frame, Segment) async for frame in work_on(file, lanes).frames()]
        return tracemalloc.get_traced_memory()[1], sum(got)
    finally:
        tracemalloc.stop()


async def test_memory_does_not_grow_with_the_file(lanes, tmp_path):
    short, few = await peak_bytes(recording(tmp_path / "short.wav", 4, 8.0), lanes)
    long, many = await peak_bytes(recording(tmp_path / "long.wav", 20, 8.0), lanes)
    assert (few, many) == (24, 120)
    # Sixteen more minutes are 31 MB of samples; 96 more segments of one word are a few kilobytes.
    assert long < short + 1_500_000


async def test_a_slow_decoder_holds_the_reader_back(lanes, tmp_path):
    file = recording(tmp_path / "a.wav", 10, 8.0)
    most = []
    held = threading.Event()

    class Slow(OneWord):
        def decode(self, chunks, ask, vote, stop):
            until_s = time.monotonic() + 60
            while work._reading is not None and not held.is_set() and time.monotonic() < until_s:
                time.sleep(0.005)
            most.append(work._schedule.outstanding)
            held.set()
            return super().decode(chunks, ask, vote, stop)

    work = work_on(file, lanes, Slow())
    segments = [frame async for frame in work.frames() if isinstance(frame, Segment)]
    assert len(segments) == 60
    # Five batches ahead, and one for each of the two lanes.
    assert 3 <= max(most) <= 7


async def test_hours_of_silence_tell_how_far_they_are_read(lanes, tmp_path):
    got = [frame async for frame in work_on(recording(tmp_path / "a.wav", 8, 0), lanes).frames()]
    done = [frame.done for frame in got if isinstance(frame, Progress)]
    assert len(done) >= 7
    assert done == sorted(done)
    assert done[-1] == 480
    assert got[-1].value["text"] == ""
    assert got[-1].value["duration"] == 480
