"""The encoder component: equal pictures are encoded once, budgets and details are honoured."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinymodels
from PIL import Image as Picture
from running import ask, stream

from motet.components.base import Context, Resources, Setup
from motet.components.errors import BadInput
from motet.components.frames import Embedding, Frame, ImagePart, Message, Prompt
from motet.components.vision.encoder import VisionEncoder
from motet.streaming.bench.vision import Plan, measure

pytestmark = pytest.mark.timeout(90)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("qwen")
    tinymodels.save("qwen2_5_vl", place)
    return place


@asynccontextmanager
async def loaded(folder: Path, **options: Any) -> AsyncIterator[VisionEncoder]:
    encoder = VisionEncoder(Setup("encoder", str(folder), options, Resources(1)))
    await encoder.load()
    try:
        yield encoder
    finally:
        await encoder.close()


def picture(seed: int, width: int = 112, height: int = 112, kind: str = "PNG") -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    file = io.BytesIO()
    Picture.fromarray(pixels).save(file, kind)
    return file.getvalue()


def huge() -> bytes:
    file = io.BytesIO()
    Picture.new("1", (8001, 8001)).save(file, "PNG")
    return file.getvalue()


async def look(encoder: VisionEncoder, *parts: ImagePart, **more: Any) -> list[Frame]:
    return await ask(encoder, Prompt((Message("user", "see", parts),), **more))


def tokens(frames: list[Frame]) -> list[int]:
    return [frame.tokens for frame in frames if isinstance(frame, Embedding)]


async def test_fifty_equal_pictures_are_encoded_once(folder: Path) -> None:
    async with loaded(folder) as encoder:
        part = ImagePart(picture(1))
        found = await asyncio.gather(*(look(encoder, part, part) for _ in range(25)))
        assert encoder.cache.misses == 1
        again = Picture.open(io.BytesIO(picture(1)))
        other = io.BytesIO()
        again.save(other, "BMP")
        await look(encoder, ImagePart(other.getvalue()))
        assert encoder.cache.misses == 1, "the same pixels in another format"
        await look(encoder, ImagePart(picture(2)))
        assert encoder.cache.misses == 2
    vectors = [f.vector for frames in found for f in frames if isinstance(f, Embedding)]
    assert len(vectors) == 50
    assert all(np.array_equal(vector, vectors[0]) for vector in vectors)


async def test_a_run_that_is_closed_holds_nothing(folder: Path) -> None:
    async with loaded(folder) as encoder:
        parts = [ImagePart(picture(seed)) for seed in (1, 2)]
        run = encoder.run(stream(Prompt((Message("user", "see", tuple(parts)),))), Context())
        assert isinstance(await anext(run), Embedding)
        assert any(entry.users for entry in encoder.cache._entries.values())
        await run.aclose()  # type: ignore[attr-defined]
        assert not any(entry.users for entry in encoder.cache._entries.values())


async def test_keys_tell_models_settings_and_types_apart(folder: Path, tmp_path: Path) -> None:
    tinymodels.save("qwen2_5_vl", tmp_path, seed=1)
    pixels = np.zeros((56, 56, 3), np.uint8)
    keys: set[str] = set()
    for place, dtype in ((folder, "float32"), (folder, "bfloat16"), (tmp_path, "float32")):
        async with loaded(place, dtype=dtype) as encoder:
            tower = encoder._tower
            assert tower is not None
            keys |= {tower.key(pixels, {}), tower.key(pixels, {"size": {"longest_edge": 784}})}
            keys.add(tower.key(pixels.reshape(28, 112, 3), {}))
    assert len(keys) == 9


async def test_details_and_budgets_bound_the_tokens(folder: Path) -> None:
    async with loaded(folder, low_tokens=4) as encoder:
        data = picture(3, 224, 224)
        whole, low = (ImagePart(data, "high"), ImagePart(data, "low"))
        free = tokens(await look(encoder, whole, low))
        assert free[0] == 64
        assert free[1] <= 4
        shared = tokens(await look(encoder, *[ImagePart(data)] * 4, image_tokens=64))
        assert len(shared) == 4
        assert sum(shared) <= 64
        with pytest.raises(BadInput, match="pictures need"):
            await look(encoder, *[ImagePart(data)] * 4, image_tokens=8)
        clip = [ImagePart(data, clip=1, time_s=float(n)) for n in range(10)]
        sent = await look(encoder, *clip, image_tokens=20)
        prompt = sent[-1]
        assert isinstance(prompt, Prompt)
        kept = prompt.messages[0].images
        assert [one.time_s for one in kept] == [0, 2, 4, 7, 9]
        assert len(tokens(sent)) == len(kept)


async def test_bfloat16_rows_travel_as_their_bits(folder: Path) -> None:
    async with loaded(folder, dtype="bfloat16") as encoder:
        (frame, _) = await look(encoder, ImagePart(picture(1)))
    assert isinstance(frame, Embedding)
    assert (frame.vector.dtype, frame.meta["dtype"]) == (np.uint16, "bfloat16")


async def test_a_broken_picture_costs_the_others_nothing(folder: Path) -> None:
    async with loaded(folder) as encoder:
        good = asyncio.gather(*(look(encoder, ImagePart(picture(n))) for n in range(4)))
        for bad in (b"", b"\x89PNG\r\n\x1a\n", picture(1)[:400], huge()):
            with pytest.raises(BadInput):
                await look(encoder, ImagePart(picture(9)), ImagePart(bad))
        assert len(await good) == 4
        assert encoder.cache.held_bytes > 0


@pytest.mark.slow
async def test_a_hit_is_twenty_times_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An encoder a tenth of a small real one's size: 12 layers of 384."""
    size = {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 12}
    monkeypatch.setattr(tinymodels, "SIGHT", tinymodels.SIGHT | size)
    tinymodels.save("smolvlm", tmp_path)
    report = await measure(Plan(str(tmp_path), pictures=3, side=400))
    assert report.ratio >= 20, report
    assert report.encoded == 1
