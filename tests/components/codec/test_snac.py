"""codec/snac: windows equal the whole decode, batches equal singles, both ends are kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from speechfakes import save_codec

from motet.components.base import Context, Setup
from motet.components.codec.decoder import CODES, LAYERS, Job, SnacDecoder, load
from motet.components.codec.snac import SnacCodec
from motet.components.codec.windows import Windows
from motet.components.errors import BadInput
from motet.components.frames import Audio, AudioTokens, Frame, Spoken


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_codec(tmp_path_factory.mktemp("snac"))


@pytest.fixture(scope="module")
def decoder(folder: Path) -> SnacDecoder:
    return SnacDecoder(folder)


def codes(frames: int, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 4096, frames * CODES, dtype=np.int32)


async def speak(
    component: SnacCodec, tokens: np.ndarray[Any, Any], pieces: int = 7
) -> np.ndarray[Any, Any]:
    async def frames() -> AsyncIterator[Frame]:
        for at in range(0, len(tokens), pieces):
            yield AudioTokens(tokens[at : at + pieces])

    sound = [f async for f in component.run(frames(), Context()) if isinstance(f, Audio)]
    starts = [round(f.start_ms * 24) for f in sound]
    lengths = [len(f.pcm) for f in sound]
    assert starts == [sum(lengths[:n]) for n in range(len(lengths))]
    return np.concatenate([f.pcm for f in sound]) if sound else np.empty(0, np.int16)


def whole(folder: Path, tokens: np.ndarray[Any, Any], seed: int) -> np.ndarray[Any, Any]:
    """The stream decoded in one go, with the same noise."""
    frames = tuple(tuple(map(int, row)) for row in tokens.reshape(-1, CODES))
    (sound,) = SnacDecoder(folder).decode([Job(frames, 0, seed)])
    return sound


@pytest.mark.parametrize("frames", [1, 2, 6, 7, 8, 13])
async def test_windows_sound_like_the_whole_and_lose_no_frame(folder: Path, frames: int) -> None:
    component = SnacCodec(Setup("codec", str(folder), {"seed": 5}))
    await component.load()
    tokens = codes(frames, frames)
    sound = await speak(component, tokens, pieces=3)
    await component.close()
    expected = whole(folder, tokens, 5) * 32768
    assert len(sound) == frames * 2048
    assert np.abs(expected).max() > 300
    assert np.abs(sound - expected).max() <= 1.5


async def test_streams_together_sound_as_they_do_alone(folder: Path) -> None:
    component = SnacCodec(Setup("codec", str(folder), {"seed": 9}, concurrency=16))
    await component.load()
    streams = [codes(9, seed) for seed in range(6)]
    alone = [await speak(component, tokens) for tokens in streams]
    together = await asyncio.gather(*(speak(component, tokens) for tokens in streams))
    assert component._batcher is not None
    assert component._batcher.items > component._batcher.batches
    await component.close()
    for one, other in zip(alone, together, strict=True):
        assert np.abs(one.astype(int) - other).max() <= 1


def jobs(count: int, frames: int = 7, *keep: int) -> list[Job]:
    return [
        Job(tuple(tuple(map(int, row)) for row in codes(frames, s).reshape(-1, CODES)), s, s, *keep)
        for s in range(count)
    ]


@pytest.mark.parametrize("keep", [(), (3, 4), (0, 1)])
def test_batched_equals_single_within_1e_6(decoder: SnacDecoder, keep: tuple[int, ...]) -> None:
    several = jobs(8, 7, *keep)
    for job, sound in zip(several, decoder.decode(several), strict=True):
        np.testing.assert_allclose(sound, decoder.decode([job])[0], atol=1e-6)


@given(st.integers(1, 9), st.data())
def test_what_is_kept_of_a_window_is_what_all_of_it_has_there(
    decoder: SnacDecoder, frames: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, frames - 1))
    last = data.draw(st.integers(first + 1, frames))
    (whole,) = decoder.decode(jobs(1, frames))
    (part,) = decoder.decode(jobs(1, frames, first, last))
    np.testing.assert_allclose(part, whole[first * 2048 : last * 2048], atol=1e-6)


def test_the_sound_is_that_of_snac_itself(
    folder: Path, decoder: SnacDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own code from end to end, with the stream's noise where it draws its own."""
    (job,) = jobs(1, 4)
    drawn = iter(list(decoder._noise([job])))
    monkeypatch.setattr(torch, "randn", lambda *a, **k: next(drawn))
    itself = load(folder)
    layers = [torch.tensor([job.frames])[:, :, list(layer)].flatten(1) for layer in LAYERS]
    with torch.inference_mode():
        expected = itself.decode(layers)[0, 0].numpy()
    monkeypatch.undo()
    assert next(drawn, None) is None
    np.testing.assert_allclose(decoder.decode([job])[0], expected, atol=1e-6)


def test_only_middle_windows_are_compiled_and_sound_the_same(
    folder: Path, decoder: SnacDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a stand-in for the compiler, which takes minutes."""
    ran: list[int] = []

    def compiler(upsampler: Any) -> Any:
        def run(latents: Any, *rest: Any) -> Any:
            ran.append(len(latents))
            return upsampler(latents, *rest)

        return run

    monkeypatch.setattr(torch, "compile", compiler)
    compiled = SnacDecoder(folder, compiled=True)
    compiled.warm_up(3)
    assert ran == [1, 2, 3]
    for several in (jobs(2, 7, 3, 4), jobs(2, 4, 0, 1), jobs(2, 6, 3, 6), jobs(1, 1, 0, 1)):
        for one, other in zip(compiled.decode(several), decoder.decode(several), strict=True):
            np.testing.assert_array_equal(one, other)
    assert ran == [1, 2, 3, 2]


def test_noise_belongs_to_the_stream(decoder: SnacDecoder) -> None:
    frames = tuple(tuple(map(int, row)) for row in codes(7, 1).reshape(-1, CODES))
    one, again, other = (decoder.decode([Job(frames, 0, seed)])[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-4


async def test_spoken_passes_in_its_place_and_bad_codes_are_refused(folder: Path) -> None:
    component = SnacCodec(Setup("codec", str(folder)))
    await component.load()

    async def frames() -> AsyncIterator[Frame]:
        yield Spoken("hello", 0, 100)
        yield AudioTokens(codes(8, 1))

    kinds = [type(f).__name__ async for f in component.run(frames(), Context())]
    assert kinds[0] == "Spoken"
    with pytest.raises(BadInput, match="code 4096"):
        await speak(component, np.array([4096] * 7, np.int32))
    await component.close()


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 4))
def test_every_frame_is_given_once_with_its_context(pushes: list[int], context: int) -> None:
    windows = Windows(context)
    given: list[int] = []
    total = 0
    for count in pushes:
        total += count
        found = list(windows.push(count))
        for window in found:
            first, last = window.start + window.keep_from, window.start + window.keep_to
            assert window.start == max(0, first - context), "as much before it as it needs"
            assert window.start + window.count == last + context, "and as much behind it"
            given += range(first, last)
        assert given == list(range(max(0, total - context))), "as soon as can be"
        assert windows.oldest == max(0, len(given) - context)
    last = windows.flush()
    if last is not None:
        given += range(last.start + last.keep_from, last.start + last.keep_to)
        assert last.start == 0 or last.keep_from >= context
    assert given == list(range(total))
