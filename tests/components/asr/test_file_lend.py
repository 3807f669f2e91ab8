"""A file's batches that fellows decode: who gets them, what comes back, and what a loss costs."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from filefakes import ENGINE, LoudnessVad, Saying, recording

from motet.components.asr.file_chunks import Chunk
from motet.components.asr.file_decode import Ask
from motet.components.asr.file_lanes import Busy, Lanes
from motet.components.asr.file_language import LanguageVote
from motet.components.asr.file_lend import LentLane, help_out
from motet.components.asr.file_options import FileOptions
from motet.components.asr.file_work import FileWork, Models
from motet.components.errors import BadInput, ComponentFailed, Overloaded
from motet.components.frames import Audio, Data, Segment

RATE_HZ = 16_000


@contextmanager
def lanes(count: int):
    with ThreadPoolExecutor(count) as decoders, ThreadPoolExecutor(2) as readers:
        yield Lanes(count, decoders, readers)


class Counting(Saying):
    """Counts the chunks it decodes, and the calls at work."""

    def __init__(self, each_s: float = 0.01) -> None:
        super().__init__(each_s)
        self.chunks: list[str] = []

    def decode(self, chunks, ask, vote, stop):
        texts = super().decode(chunks, ask, vote, stop)
        self.chunks += [chunk.key for chunk in chunks]
        return texts


class Neighbour:
    """A fellow in this process; `dies` after it has taken a batch, as often as that says."""

    def __init__(self, own: Lanes, decoder: Counting, dies: int = 0) -> None:
        self.own = own
        self.decoder = decoder
        self.dies = dies
        self.asked = self.open = 0

    async def call(self, frames):
        assert await anext(frames) == Data({"kind": "lend"})
        self.asked += 1
        self.open += 1
        try:
            async for frame in help_out(frames, self.own, self.decoder, where="n"):
                if self.dies and frame.value["kind"] != "lane":
                    self.dies -= 1
                    raise ComponentFailed("replica n-2 is gone")
                yield frame
        finally:
            self.open -= 1


async def work(file, own: Lanes, decoder: Counting, fellows=None, known=None):
    models = Models(ENGINE, decoder, LoudnessVad())
    made = FileWork(models, own, FileOptions(batch=2, first_batch=1), file, known or {}, fellows)
    try:
        return [frame async for frame in made.frames()]
    finally:
        await made.cancel()


def said(got) -> list[str]:
    return [frame.text for frame in got if isinstance(frame, Segment)]


async def test_a_fellow_decodes_what_the_lanes_here_cannot_at_once(tmp_path):
    file = recording(tmp_path / "a.wav", 6, 8.0)
    with lanes(1) as own, lanes(2) as theirs:
        alone, here, there = Counting(), Counting(), Counting()
        expected = await work(file, own, alone)
        fellow = Neighbour(theirs, there)
        got = await work(file, own, here, fellow)
        assert said(got) == said(expected)
        assert got[-1].value == expected[-1].value, "one vote of the language, one transcript"
        assert sorted(here.chunks + there.chunks) == sorted(alone.chunks)
        assert len(there.chunks) >= 2
        assert fellow.open == 0
        assert (own.free, theirs.free) == (True, True)


async def test_a_fellow_whose_lanes_are_taken_refuses_and_holds_nothing_up(tmp_path):
    file = recording(tmp_path / "a.wav", 3, 8.0)
    with lanes(1) as own, lanes(1) as theirs:
        busy = theirs.take()
        here, there = Counting(), Counting()
        fellow = Neighbour(theirs, there)
        got = await work(file, own, here, fellow)
        busy.give_up()
        assert len(said(got)) == len(here.chunks) == 18
        assert there.chunks == []
        assert 1 <= fellow.asked <= 3, "it isn't asked again and again"


async def test_a_batch_whose_fellow_dies_is_decoded_here(tmp_path):
    file = recording(tmp_path / "a.wav", 4, 8.0)
    with lanes(1) as own, lanes(1) as theirs:
        here, there = Counting(), Counting()
        got = await work(file, own, here, Neighbour(theirs, there, dies=1))
        assert len(said(got)) == 24
        assert len(set(said(got))) == 24
        assert len(here.chunks) + len(there.chunks) == 24 + 2, "the batch was lost once"
        assert set(there.chunks[:2]) <= set(here.chunks)


async def test_what_stops_here_stops_there(tmp_path):
    file = recording(tmp_path / "a.wav", 4, 8.0)
    with lanes(1) as own, lanes(1) as theirs:
        slow = Counting(each_s=60)
        fellow = Neighbour(theirs, slow)
        task = asyncio.create_task(work(file, own, slow, fellow))
        while own.free or theirs.free or not fellow.open:  # noqa: ASYNC110 - another task's work
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert fellow.open == 0
        while not (own.free and theirs.free):  # noqa: ASYNC110 - threads end at their next step
            await asyncio.sleep(0.005)
        assert slow.chunks == []


async def test_a_batch_travels_whole_and_its_vote_comes_back():
    vote = LanguageVote(None, ["de", "fr"])
    vote.choose([{"fr": 1.0}], [4.0])
    seen = []

    class Looks(Saying):
        def decode(self, chunks, ask, vote, stop):
            seen.append((chunks, ask, vote.totals, vote.allowed))
            return super().decode(chunks, ask, vote, stop)

    pcm = np.random.default_rng(2).integers(-9000, 9000, 5 * RATE_HZ).astype(np.int16)
    chunks = [
        Chunk(1, 160, pcm, 3.5, ((0, 512), (1024, 4096))),
        Chunk(0, 9000, pcm[:8000], 0.25),
    ]
    ask = Ask("translate", (5, 6, 7), 3, 0.2)
    with lanes(1) as theirs:
        lane = LentLane(Neighbour(theirs, Looks(0)))
        await lane.granted()
        texts = await lane.decode(chunks, ask, vote)
        await lane.aclose()
    ((got, got_ask, totals, allowed),) = seen
    assert [(c.track, c.start, c.speech_s, c.spans) for c in got] == [
        (c.track, c.start, c.speech_s, c.spans) for c in chunks
    ]
    for one, sent in zip(got, chunks, strict=True):
        np.testing.assert_array_equal(one.pcm, sent.pcm)
    assert (got_ask, totals, allowed) == (ask, {"fr": 4.0}, {"de", "fr"})
    assert [text.text.split()[2] for text in texts] == ["160", "9000"]
    # Each chunk is a second of speech that is German as far as only German and French may be.
    assert vote.totals == pytest.approx({"fr": 4.0, "de": 2.0})


@pytest.mark.parametrize(
    "frames",
    [
        [Data({"kind": "batch"})],
        [Data(3)],
        [Audio(np.zeros(160, np.int16), RATE_HZ)],
        [Data({"kind": "batch", "chunks": [[0, 0, 1.0, []]], "ask": {}, "language": None})],
    ],
)
async def test_what_is_no_batch_is_refused_and_frees_the_lane(frames):
    async def source():
        for frame in frames:
            yield frame

    with lanes(1) as theirs:
        helping = help_out(source(), theirs, Saying(0), where="n")
        assert await anext(helping) == Data({"kind": "lane"})
        with pytest.raises(BadInput, match="no batch"):
            await anext(helping)
        assert theirs.free


async def test_a_lane_stays_taken_until_its_thread_has_ended():
    go_on = threading.Event()
    with lanes(1) as own:
        task = asyncio.create_task(own.take().run(go_on.wait))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(Overloaded, match="n: all 1 lanes"):
            own.take_free(where="n")
        go_on.set()
        while not own.free:  # noqa: ASYNC110 - a thread ends
            await asyncio.sleep(0.005)
        lane = own.take_free(where="n")
        lane.give_up()
        lane.give_up()
        assert own.free


def test_only_seconds_of_work_count_as_busy():
    busy = Busy(100.0)
    busy.change(1.0, 100.0)
    assert busy.mean(102.0) < 0.4
    assert busy.mean(108.5) > 0.8
    busy.change(0.5, 140.0)
    assert busy.mean(170.0) == pytest.approx(0.5, abs=0.01)
    busy.change(0.0, 170.0)
    assert busy.mean(190.0) < 0.01
