"""The two components on whole folders: seeds, batches, progress, what a request chooses."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinyfolders
import torch
from diffusers import StableDiffusionPipeline
from diffusers.utils import convert_state_dict_to_diffusers
from picturing import SIZE, ask, engine_of, images, serving
from PIL import Image as pictures

from motet.components.diffusion.engine import preview_steps
from motet.components.errors import BadInput
from motet.components.frames import Generate, Image, Progress, VideoClip

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


async def test_a_seed_gives_the_same_picture_alone_and_in_company(
    folders: dict[str, Path],
) -> None:
    for name in ("clips", "stable"):
        async with serving(folders[name], window_ms=200) as pipeline:
            alone = [
                images(await ask(pipeline, Generate("a", seed=seed, **SIZE)))[0] for seed in (5, 6)
            ]
            again = images(await ask(pipeline, Generate("a", seed=5, count=2, **SIZE)))
            other, mine = await asyncio.gather(
                ask(pipeline, Generate("b", seed=9, **SIZE)),
                ask(pipeline, Generate("a", seed=5, **SIZE)),
            )
        assert [one.meta["seed"] for one in again] == [5, 6]
        assert again[0].meta["batch"] == 2
        assert images(mine)[0].meta["batch"] == 2
        for found, exact in (
            (again[0], alone[0]),
            (again[1], alone[1]),
            (images(mine)[0], alone[0]),
        ):
            apart = np.abs(found.pixels.astype(int) - exact.pixels.astype(int))
            assert apart.max() <= 1
        assert not np.array_equal(images(other)[0].pixels, alone[0].pixels)


async def test_who_brings_a_negative_prompt_changes_nobody_elses_picture(tmp_path: Path) -> None:
    """FLUX.1-dev's guidance is inside it, and turns into two branches with a negative prompt."""
    tinyfolders.made("flux").save_pretrained(tmp_path, safe_serialization=True)
    asked: dict[str, Any] = {"width": 16, "height": 16, "guidance": 4.0}
    async with serving(tmp_path, window_ms=200) as pipeline:
        alone = images(await ask(pipeline, Generate("a", seed=5, **asked)))[0]
        mine, _ = await asyncio.gather(
            ask(pipeline, Generate("a", seed=5, **asked)),
            ask(pipeline, Generate("b", seed=6, negative_prompt="dog", **asked)),
        )
    assert images(mine)[0].meta["rows_total"] == alone.meta["rows_total"] == 4
    assert np.array_equal(images(mine)[0].pixels, alone.pixels)


async def test_progress_and_previews_come_before_the_picture(folders: dict[str, Path]) -> None:
    for name in ("clips", "stable"):
        async with serving(folders[name]) as pipeline:
            frames = await ask(pipeline, Generate("a", steps=6, previews=2, seed=1, **SIZE))
        progress = [one for one in frames if isinstance(one, Progress)]
        assert progress[-1].done == progress[-1].total == 6
        shown = images(frames, preview=True)
        assert [one.meta["preview"] for one in shown] == [0, 1]
        assert shown[0].pixels.shape == (32, 32, 3)
        final = images(frames)[0]
        assert isinstance(frames[-1], Image)
        assert final.meta["rows_total"] == 12
        assert final.meta["rows_saved"] == 0
    assert preview_steps(3, 8) == [1, 3, 5]
    assert preview_steps(3, 2) == [0]


async def test_a_request_chooses_what_it_skips_and_sees_what_it_saved(
    folders: dict[str, Path],
) -> None:
    skip = {"guidance_skip": {"interval": [0, 0.5]}}
    async with serving(folders["clips"], cache={"threshold": 10}) as pipeline:
        frames = await ask(
            pipeline, Generate("a", seed=1, steps=8, options={**skip, "cache": False}, **SIZE)
        )
        cached = await ask(pipeline, Generate("a", seed=1, steps=8, **SIZE))
    meta, kept = images(frames)[0].meta, images(cached)[0].meta
    assert (meta["rows_saved"], meta["rows_total"], meta["cache_hits"]) == (4, 16, 0)
    assert kept["rows_saved"] == 0
    assert kept["cache_hits"] > 0
    assert 0 < kept["blocks_saved"] < kept["blocks_total"]


async def test_a_picture_to_start_from_shows_in_the_result(folders: dict[str, Path]) -> None:
    red = io.BytesIO()
    pictures.new("RGB", (50, 40), (255, 0, 0)).save(red, "PNG")
    for name in ("clips", "stable"):
        async with serving(folders[name]) as pipeline:
            request = Generate("a", seed=1, image=red.getvalue(), strength=0.5, **SIZE)
            frames = await ask(pipeline, request)
            plain = await ask(pipeline, Generate("a", seed=1, **SIZE))
        assert images(frames)[0].meta["steps"] == 2
        assert images(frames)[0].pixels.shape == (32, 32, 3)
        assert not np.array_equal(images(frames)[0].pixels, images(plain)[0].pixels)


async def test_clips_have_their_frames_and_rate(folders: dict[str, Path]) -> None:
    async with serving(folders["clips"], "video", frames=5, fps=12) as pipeline:
        frames = await ask(pipeline, Generate("a", seed=3, previews=1, **SIZE))
        short = await ask(pipeline, Generate("a", seed=3, frames=2, fps=4, **SIZE))
    clip = next(one for one in frames if isinstance(one, VideoClip))
    assert clip.pixels.shape == (5, 32, 32, 3)
    assert clip.fps == 12
    assert len(images(frames, preview=True)) == 1
    clip = next(one for one in short if isinstance(one, VideoClip))
    assert (clip.pixels.shape[0], clip.fps) == (2, 4)


async def test_a_scheduler_of_the_files_choice_is_used(folders: dict[str, Path]) -> None:
    options = {"scheduler": "EulerDiscreteScheduler", "scheduler_options": {"beta_end": 0.02}}
    async with serving(folders["stable"], **options) as pipeline:
        scheduler = engine_of(pipeline).pipe.scheduler
        assert type(scheduler).__name__ == "EulerDiscreteScheduler"
        assert scheduler.config.beta_end == 0.02
        assert images(await ask(pipeline, Generate("a", **SIZE)))


@pytest.fixture(scope="module")
def lora(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LoRA of the small model whose weights are large enough to see."""
    peft = pytest.importorskip("peft")
    pipe: Any = StableDiffusionPipeline.from_pretrained(folders["stable"])
    pipe.unet.add_adapter(peft.LoraConfig(r=2, target_modules=["to_q", "to_v", "to_out.0"]))
    torch.manual_seed(1)
    for name, weight in pipe.unet.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight, std=0.5)
    state = peft.get_peft_model_state_dict(pipe.unet)
    folder = tmp_path_factory.mktemp("lora")
    StableDiffusionPipeline.save_lora_weights(
        folder, unet_lora_layers=convert_state_dict_to_diffusers(state)
    )
    return folder


async def test_a_lora_changes_the_picture_by_its_scale(
    folders: dict[str, Path], lora: Path
) -> None:
    made: list[np.ndarray] = []
    for scale in (None, 0.0, 1.0):
        options = {} if scale is None else {"lora": [{"model": str(lora), "scale": scale}]}
        async with serving(folders["stable"], **options) as pipeline:
            made.append(images(await ask(pipeline, Generate("a", seed=1, **SIZE)))[0].pixels)
            parts = engine_of(pipeline).pipe.unet.named_modules()
            assert not any("lora" in name for name, _ in parts)
    assert np.array_equal(made[0], made[1])
    assert np.abs(made[2].astype(int) - made[0]).max() > 3


async def test_a_lora_that_does_not_fit_is_refused(folders: dict[str, Path], lora: Path) -> None:
    for name in ("clips", "stable"):
        wrong = lora if name == "clips" else folders["stable"]
        with pytest.raises(BadInput, match=r"takes no LoRA|can't be added"):
            async with serving(folders[name], lora=[{"model": str(wrong)}]):
                pass
