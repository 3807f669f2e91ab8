"""A model on 2 and 4 processes: the pictures of one, savings included, and what happens when one
process dies."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from motet.components.diffusion.options import DiffusionOptions, ParallelOptions
from motet.components.diffusion.ranks import Ranks
from motet.components.errors import BadInput, ComponentFailed
from motet.components.frames import Frame, Generate, Image
from motet.pipelines import Pipeline, build
from motet.pipelines.spec import PipelineSpec

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
ASKED = Generate("a", seed=3, count=2, width=32, height=64, previews=1)
SKIP = {"interval": [0.2, 0.8]}


@asynccontextmanager
async def serving(model: Path, **options: object) -> AsyncIterator[Pipeline]:
    node = {"use": "diffusion/image", "model": str(model), "options": {"steps": 5, **options}}
    spec = {"name": "media", "nodes": {"make": node}, "edges": ["input -> make -> output"]}
    async with Pipeline(build(PipelineSpec.model_validate(spec))) as pipeline:
        yield pipeline


async def ask(pipeline: Pipeline, request: Generate = ASKED) -> list[Image]:
    frames: list[Frame] = [frame async for frame in pipeline.ask(request)]
    return [frame for frame in frames if isinstance(frame, Image)]


async def same(
    model: Path, parallel: dict[str, Any], *requests: Generate, **options: object
) -> list[Image]:
    """The pictures on one process and on several must be the same, and must have cost the same."""
    requests = requests or (ASKED,)
    async with serving(model, **options) as pipeline:
        exact = [one for request in requests for one in await ask(pipeline, request)]
    async with serving(model, parallel=parallel, **options) as pipeline:
        found = [one for request in requests for one in await ask(pipeline, request)]
    assert len(found) == len(exact) == 2 * sum(request.count for request in requests)
    for one, other in zip(found, exact, strict=True):
        assert (one.index, one.preview) == (other.index, other.preview)
        assert np.abs(one.pixels.astype(int) - other.pixels).max() <= 1
        kept = {key: value for key, value in one.meta.items() if key not in ("ms", "batch")}
        assert kept == {key: other.meta[key] for key in kept}
    return found


async def test_branches_shared_out_with_steps_skipped(folders: dict[str, Path]) -> None:
    found = await same(folders["stable"], {"cfg": 2}, guidance_skip=SKIP)
    assert found[-1].meta["rows_saved"] == 2


async def test_one_picture_decoded_by_tiles_on_both_and_two_by_one_each(
    folders: dict[str, Path],
) -> None:
    """What two processes make of its tiles is what one makes of them."""
    tiling = {"size": 4, "halo": 1, "blend": 2}
    requests = ASKED, replace(ASKED, count=1)
    options = {"guidance_skip": SKIP, "vae_tiling": tiling}
    found = await same(folders["clips"], {"cfg": 2}, *requests, **options)
    assert found[-1].meta["rows_saved"] == 2


async def test_branches_shared_out_with_a_cache_that_stays_where_it_is(
    folders: dict[str, Path],
) -> None:
    """Rows keep their rank, so that what it remembers serves them, whether or not the other
    branch runs: the same blocks are kept as on one process."""
    cache = {"kind": "first_block", "threshold": 1.5, "most": 2}
    found = await same(folders["clips"], {"cfg": 2}, cache=cache, guidance_skip=SKIP)
    assert found[-1].meta["cache_hits"] > 0
    assert found[-1].meta["rows_saved"] == 2


@pytest.mark.parametrize("parallel", [{"ring": 2, "ulysses": 2}, {"cfg": 2, "ring": 2}], ids=str)
async def test_tokens_shared_out_with_a_cache_that_all_agree_on(
    folders: dict[str, Path], parallel: dict[str, Any]
) -> None:
    cache = {"kind": "first_block", "threshold": 1.5, "most": 2}
    found = await same(folders["clips"], parallel, cache=cache, guidance_skip=SKIP)
    assert found[-1].meta["cache_hits"] > 0


async def test_a_ring_in_eight_bits_stays_near(folders: dict[str, Path]) -> None:
    precision = {"rules": [{"qk": "int8", "pv": "fp8"}]}
    async with serving(folders["clips"]) as pipeline:
        exact = await ask(pipeline)
    async with serving(folders["clips"], parallel={"ring": 2}, precision=precision) as pipeline:
        found = await ask(pipeline)
    apart = np.abs(found[-1].pixels.astype(int) - exact[-1].pixels)
    assert 0 < apart.mean() < 3


async def test_clients_that_leave_and_processes_that_die(folders: dict[str, Path]) -> None:
    parallel = {"ulysses": 2, "timeout_s": 20}
    async with serving(folders["clips"], parallel=parallel) as pipeline:
        exact = await ask(pipeline)
        long = Generate("a", seed=1, steps=100, width=32, height=48)
        async with aclosing(pipeline.ask(long)) as frames:
            async for _ in frames:
                break
        again = await ask(pipeline)
        assert np.array_equal(again[-1].pixels, exact[-1].pixels)
        with pytest.raises(BadInput, match="multiples of 16"):
            await ask(pipeline, Generate("a", width=33, height=32))

        replica: Any = pipeline.runtime
        ranks = replica.component("make")._engine
        run = asyncio.create_task(ask(pipeline, long))
        await asyncio.sleep(0.1)
        os.kill(ranks._children[1].pid, signal.SIGKILL)
        with pytest.raises(ComponentFailed):
            await run
        after = await ask(pipeline)
        assert np.array_equal(after[-1].pixels, exact[-1].pixels)
        children = list(ranks._children)
    assert all(child.poll() is not None for child in children)


async def test_a_model_that_cannot_share_says_so(folders: dict[str, Path]) -> None:
    with pytest.raises(BadInput, match="UNet2DConditionModel has no plan"):
        async with serving(folders["stable"], parallel={"ring": 2}):
            pass


@pytest.mark.parametrize("how", ["exit 3", "kill -9 $$"])
def test_processes_that_die_before_they_speak_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    dead = tmp_path / "python"
    dead.write_text(f"#!/bin/sh\n{how}\n")
    dead.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(dead))
    options = DiffusionOptions(parallel=ParallelOptions(cfg=2))
    before = psutil.Process().children()
    with pytest.raises(ComponentFailed, match=r"died as it loaded|has died"):
        Ranks(None, options, 2)
    assert psutil.Process().children() == before
