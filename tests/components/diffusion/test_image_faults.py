"""What can go wrong with a picture: clients that leave, NaN, memory, and requests that are bad."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from picturing import SIZE, ask, engine_of, images, serving

from motet.components.diffusion.generate import picture_of
from motet.components.diffusion.shot import Shape
from motet.components.errors import BadInput, ComponentFailed, MissingRequirement
from motet.components.frames import Generate
from motet.pipelines import Pipeline

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


class Counting:
    """Wraps a denoiser's forward: counts calls, may fail, and may tell when one runs."""

    def __init__(self, original: Callable[..., Any], change: Callable[[int, Any], Any]) -> None:
        self.calls = 0
        self._original = original
        self._change = change

    def __call__(
        self,
        hidden_states: Any,
        timestep: Any,
        encoder_hidden_states: Any,
        encoder_hidden_states_image: Any = None,
        return_dict: bool = True,
        attention_kwargs: Any = None,
    ) -> Any:
        self.calls += 1
        output = self._original(
            hidden_states, timestep, encoder_hidden_states, return_dict=return_dict
        )
        return self._change(self.calls, output)


def watched(pipeline: Pipeline, change: Callable[[int, Any], Any]) -> Counting:
    net = engine_of(pipeline).pipe.transformer
    net.forward = Counting(net.forward, change)
    return net.forward


async def test_work_stops_when_the_client_has_gone(folders: dict[str, Path]) -> None:
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(call: int, output: Any) -> Any:
        loop.call_soon_threadsafe(started.set)
        torch.randn(1)
        time.sleep(0.02)
        return output

    async with serving(folders["clips"]) as pipeline:
        denoiser = watched(pipeline, slow)
        asked = pipeline.ask(Generate("a", steps=100, **SIZE))
        async with aclosing(asked) as frames:
            async for _ in frames:
                if started.is_set():
                    break
        seen = denoiser.calls
        await asyncio.sleep(0.2)
        assert denoiser.calls <= seen + 2
        assert images(await ask(pipeline, Generate("a", **SIZE)))


async def test_a_picture_that_becomes_nan_is_a_fault_of_its_own(folders: dict[str, Path]) -> None:
    def spoil(call: int, output: Any) -> Any:
        output[0][:1] = float("nan")
        return output

    async with serving(folders["clips"], window_ms=200) as pipeline:
        exact = images(await ask(pipeline, Generate("b", seed=2, **SIZE)))[0]
        watched(pipeline, spoil)
        first, second = await asyncio.gather(
            ask(pipeline, Generate("a", seed=1, **SIZE)),
            ask(pipeline, Generate("b", seed=2, **SIZE)),
            return_exceptions=True,
        )
    assert isinstance(first, ComponentFailed)
    assert "NaN or infinite at step 1" in str(first)
    assert isinstance(second, list)
    apart = images(second)[0].pixels.astype(int) - exact.pixels.astype(int)
    assert np.abs(apart).max() <= 1


async def test_out_of_memory_runs_the_batch_one_by_one_then_says_so(
    folders: dict[str, Path],
) -> None:
    def heavy(call: int, output: Any) -> Any:
        if output[0].shape[0] > 1:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")
        return output

    async with serving(folders["clips"]) as pipeline:
        watched(pipeline, heavy)
        both = images(await ask(pipeline, Generate("a", seed=1, count=2, **SIZE)))
        assert [one.meta["batch"] for one in both] == [1, 1]
        watched(pipeline, lambda call, output: 1 / 0)
        with pytest.raises(ComponentFailed, match="division by zero"):
            await ask(pipeline, Generate("a", **SIZE))


async def test_a_failed_request_changes_nothing_for_the_next(folders: dict[str, Path]) -> None:
    async with serving(folders["clips"], cache={"threshold": 0.2}) as pipeline:
        exact = images(await ask(pipeline, Generate("a", seed=1, **SIZE)))[0]
        net = engine_of(pipeline).pipe.transformer

        def fail(call: int, output: Any) -> Any:
            if call == 3:
                raise RuntimeError("broken")
            return output

        watched(pipeline, fail)
        with pytest.raises(ComponentFailed, match="broken"):
            await ask(pipeline, Generate("another", seed=1, width=64, height=64))
        del net.forward
        after = images(await ask(pipeline, Generate("a", seed=1, **SIZE)))[0]
    assert np.array_equal(after.pixels, exact.pixels)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Generate(" ", **SIZE), "a prompt is needed"),
        (Generate("a", count=99, **SIZE), "count must be 1 to 10"),
        (Generate("a", steps=101, **SIZE), "steps must be 1 to 100"),
        (Generate("a", frames=2, **SIZE), "pictures, not clips"),
        (Generate("a", width=33, height=32), "multiples of 16"),
        (Generate("a", width=4096, height=4096), "possible: up to 2048x2048"),
        (Generate("a", options={"guidance": 1}, **SIZE), "guidance: Extra inputs"),
        (Generate("a", options={"guidance_skip": {"interval": [1, 0]}}, **SIZE), "start <= stop"),
    ],
)
async def test_bad_requests_say_what_is_possible(
    folders: dict[str, Path], request_: Generate, message: str
) -> None:
    async with serving(folders["clips"]) as pipeline:
        with pytest.raises(BadInput, match=message):
            await ask(pipeline, request_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheduler": "EulerDiscrete"}, "did you mean 'EulerDiscreteScheduler'"),
        ({"scheduler_options": {"shifts": 1}}, "has no shifts"),
        ({"vae_tiling": True, "device": "cuda:7"}, "device|vae_tiling"),
    ],
)
async def test_a_file_that_cannot_load_says_why(
    folders: dict[str, Path], options: dict[str, Any], message: str
) -> None:
    with pytest.raises((BadInput, MissingRequirement), match=message):
        async with serving(folders["clips"], **options):
            pass


def png_of(width: int, height: int) -> bytes:
    """The head of a PNG of that size, with nothing behind it."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = struct.pack(">I", 13) + head + struct.pack(">I", crc32(head)) + bytes(4) + b"IDAT"
    return b"\x89PNG\r\n\x1a\n" + chunks


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "starts? with nothing"),
        (b"GIF87a, they said", "damaged|no picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "are no picture"),
        (png_of(60_000, 60_000), "at most 64 million"),
        (png_of(9_000, 9_000), "at most 64 million"),
        (png_of(9, 9), "damaged"),
    ],
)
def test_a_picture_to_start_from_is_opened_as_a_strangers(data: bytes, message: str) -> None:
    shape = Shape(32, 32, None, None, 1, None)
    with pytest.raises(BadInput, match=message) as caught:
        picture_of(data, shape)
    assert caught.value.param == "image"
