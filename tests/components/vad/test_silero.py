"""Silero against faster-whisper's own run of it: whole, in chunks, and beside other sessions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import numpy as np
import pytest

from motet.components.base import Context, Setup
from motet.components.errors import MotetError
from motet.components.frames import Audio, Clear, Commit, Frame, TurnSettings
from motet.components.silero import SileroModel
from motet.components.vad.silero import SileroVad

pytest.importorskip("onnxruntime")
reference = pytest.importorskip("faster_whisper.vad")


@pytest.fixture
async def vad():
    component = SileroVad(Setup("vad"))
    await component.load()
    yield component
    await component.close()


@pytest.fixture(scope="module")
def clip(say, quiet):
    return np.concatenate((quiet(500), say("What time is it in Paris?"), quiet(700)))


def expected(clip: np.ndarray) -> np.ndarray:
    # The reference blanks the end of its last window, so that one is a window more than asked for.
    whole = np.pad(clip, (0, 512 + -len(clip) % 512)).astype(np.float32) / 32768
    return reference.get_vad_model()(whole).reshape(-1)[:-1]


async def frames_of(*items: Frame) -> AsyncIterator[Frame]:
    for item in items:
        await asyncio.sleep(0)
        yield item


def chunks(pcm: np.ndarray, size: int, rate_hz: int = 16_000) -> list[Frame]:
    return [Audio(pcm[n : n + size], rate_hz, n * 1000 / rate_hz) for n in range(0, len(pcm), size)]


async def collect(vad: SileroVad, *items: Frame) -> list[Frame]:
    return [frame async for frame in vad.run(frames_of(*items), Context())]


def probabilities(frames: list[Frame]) -> np.ndarray:
    return np.array([frame.speech for frame in frames if isinstance(frame, Audio)])


async def test_chunks_give_what_the_reference_gives_for_the_whole(vad, clip):
    frames = await collect(vad, *chunks(clip, 320))
    assert np.allclose(probabilities(frames), expected(clip), atol=1e-5)
    assert probabilities(frames).max() > 0.9
    assert probabilities(frames)[:10].max() < 0.3


async def test_no_sample_is_lost_and_every_window_knows_its_place(vad, clip):
    frames = await collect(vad, *chunks(clip, 333))
    assert np.array_equal(np.concatenate([frame.pcm for frame in frames]), clip)
    starts = np.cumsum([0, *(len(frame.pcm) for frame in frames[:-1])]) / 16
    assert [frame.start_ms for frame in frames] == starts.tolist()
    assert {len(frame.pcm) for frame in frames[:-1]} == {512}


async def test_sessions_in_one_batch_hear_only_themselves(vad, clip, say):
    other = say("Seven green parrots sang loudly.")
    clips = [clip if n % 2 else other[n * 37 :] for n in range(12)]
    answers = await asyncio.gather(
        *(collect(vad, *chunks(c, 320 + n)) for n, c in enumerate(clips))
    )
    for one, frames in zip(clips, answers, strict=True):
        assert np.allclose(probabilities(frames), expected(one), atol=1e-5)


async def test_fifty_sessions_share_batches_and_one_thread(vad, clip):
    before = threading.active_count()
    await asyncio.gather(*(collect(vad, *chunks(clip[:8000], 512)) for _ in range(50)))
    batcher = vad._batcher
    assert batcher.items / batcher.batches > 10
    assert threading.active_count() <= before + 1


async def test_any_rate_is_heard_alike(vad, clip):
    import soxr

    speech = probabilities(await collect(vad, *chunks(clip, 320)))
    for rate_hz in (8_000, 24_000, 44_100, 48_000):
        other = soxr.resample(clip, 16_000, rate_hz)
        frames = await collect(vad, *chunks(other, rate_hz // 50, rate_hz))
        assert {frame.rate_hz for frame in frames} == {16_000}
        assert abs(sum(len(frame.pcm) for frame in frames) - len(clip)) <= 2
        heard = probabilities(frames)[: len(speech)]
        assert ((heard > 0.5) != (speech[: len(heard)] > 0.5)).mean() < 0.08


async def test_a_rate_that_changes_midway_loses_nothing(vad, clip):
    import soxr

    half = len(clip) // 2
    late = soxr.resample(clip[half:], 16_000, 48_000)
    frames = await collect(vad, *chunks(clip[:half], 320), *chunks(late, 960, 48_000))
    assert abs(sum(len(frame.pcm) for frame in frames) - len(clip)) <= 2


async def test_controls_keep_their_place_and_a_commit_brings_the_rest(vad, clip):
    settings = TurnSettings(mode="manual")
    frames = await collect(
        vad, settings, Audio(clip[:700], 16_000), Commit(), Audio(clip[700:1300], 16_000), Clear()
    )
    kinds = [len(frame.pcm) if isinstance(frame, Audio) else frame for frame in frames]
    assert kinds == [settings, 512, 188, Commit(), 512, 88, Clear()]
    audio = [frame for frame in frames if isinstance(frame, Audio)]
    assert [frame.start_ms for frame in audio] == [0, 32, 43.75, 75.75]
    assert all(frame.speech is not None for frame in audio)


async def test_a_burst_of_audio_does_not_hold_up_the_others(vad, clip):
    burst = np.tile(clip, 20)
    slow = asyncio.create_task(collect(vad, Audio(burst, 16_000)))
    frames = await collect(vad, *chunks(clip[:5120], 512))
    assert len(frames) == 10
    assert not slow.done()
    assert len(await slow) == -(-len(burst) // 512)


async def test_it_must_be_loaded_first(clip):
    with pytest.raises(MotetError, match="loaded"):
        await collect(SileroVad(Setup("vad")), *chunks(clip, 512))


def test_a_whole_signal_is_scanned_as_the_reference_does(clip):
    from motet.components.models import locate

    model = SileroModel(locate("silero-vad"))
    long = np.tile(clip, 12)
    speech, _ = model.scan(long)
    assert np.allclose(speech, expected(long), atol=1e-5)
    cut = 512 * 100
    first, state = model.scan(long[:cut])
    second, _ = model.scan(long[cut:], state)
    assert np.allclose(np.concatenate((first, second)), speech, atol=1e-5)


def test_another_graph_is_refused_with_its_name(tmp_path):
    other = tmp_path / "other.onnx"
    other.write_bytes(b"no such graph")
    with pytest.raises(MotetError, match=r"other\.onnx"):
        SileroModel(other)
