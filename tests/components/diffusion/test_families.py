"""Folders of nine families through the component: what a request may ask, and what it saves."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinyfolders
import torch
from PIL import Image as pictures

from motet.components.diffusion import engine, preview
from motet.components.errors import BadInput
from motet.components.frames import Frame, Generate, Image, VideoClip
from motet.pipelines import Pipeline, build
from motet.pipelines.spec import PipelineSpec

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
HALF = {"guidance_skip": {"interval": [0, 0.5]}}


@dataclass(frozen=True)
class Family:
    """`side` in pixels; whether it makes clips, caches by blocks, starts from a picture."""

    side: int
    clips: bool = False
    caches: bool = True
    starts: bool = True


FAMILIES = {
    "sdxl": Family(32, caches=False),
    "sd3": Family(32),
    "flux": Family(16),
    "pixart": Family(16, starts=False),
    "sana": Family(32, starts=False),
    "wan": Family(16, clips=True, starts=False),
    "ltx": Family(32, clips=True),
    "hunyuan": Family(16, clips=True, starts=False),
    "cogvideo": Family(16, clips=True, starts=False),
}


async def ask(pipeline: Pipeline, **asked: Any) -> tuple[Any, list[Image]]:
    frames: list[Frame] = [frame async for frame in pipeline.ask(Generate("a cat", **asked))]
    previews = [one for one in frames if isinstance(one, Image) and one.preview]
    return frames[-1], previews


def red() -> bytes:
    out = io.BytesIO()
    pictures.new("RGB", (40, 30), (255, 0, 0)).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize("name", FAMILIES)
async def test_a_folder_answers_requests_and_saves(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = FAMILIES[name]
    monkeypatch.setattr(engine, "preview_steps", lambda count, total: [total - 1][:count])
    tinyfolders.made(name).save_pretrained(tmp_path, safe_serialization=True)
    use = "diffusion/video" if family.clips else "diffusion/image"
    options: dict[str, Any] = {"steps": 4}
    if name in ("pixart", "sana"):
        options["call"] = {"use_resolution_binning": False}
    node = {"use": use, "model": str(tmp_path), "options": options}
    spec = {"name": "m", "nodes": {"make": node}, "edges": ["input -> make -> output"]}
    asked: dict[str, Any] = {"width": family.side, "height": family.side, "seed": 1}
    asked |= {"negative_prompt": "dog", "guidance": 4.0}
    if family.clips:
        asked["frames"] = 9
    async with Pipeline(build(PipelineSpec.model_validate(spec))) as pipeline:
        first, shown = await ask(pipeline, previews=1, **asked)
        frames = (9,) if family.clips else ()
        assert isinstance(first, VideoClip if family.clips else Image)
        assert first.pixels.shape == (*frames, family.side, family.side, 3)
        assert [one.pixels.shape for one in shown] == [(family.side, family.side, 3)]
        if not family.clips:
            # After the last step a preview is the picture itself.
            assert np.abs(shown[0].pixels.astype(int) - first.pixels).max() <= 1
        assert (first.meta["rows_total"], first.meta["rows_saved"]) == (8, 0)

        again, _ = await ask(pipeline, options=HALF, **asked)
        assert (again.meta["rows_total"], again.meta["rows_saved"]) == (8, 2)
        exact, _ = await ask(pipeline, **asked)
        assert np.array_equal(exact.pixels, first.pixels)

        cache = {"cache": {"threshold": 10}}
        if family.caches:
            kept, _ = await ask(pipeline, options=cache, **asked)
            assert kept.meta["cache_hits"] == 2 * 2
        else:
            with pytest.raises(BadInput, match="can't be cached"):
                await ask(pipeline, options=cache, **asked)
        if family.starts:
            started, _ = await ask(pipeline, image=red(), **asked)
            assert not np.array_equal(started.pixels, first.pixels)
        else:
            with pytest.raises(BadInput, match="can't start from a picture"):
                await ask(pipeline, image=red(), **asked)


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.clips])
def test_latents_of_clips_are_read_as_their_pipeline_does(name: str) -> None:
    """A preview decodes the first of these alone, which most decoders make a little otherwise."""
    pipe, side = tinyfolders.made(name), FAMILIES[name].side
    pipe.set_progress_bar_config(disable=True)
    last: dict[str, torch.Tensor] = {}

    def note(pipe: Any, index: int, timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        del pipe, index, timestep
        last.update(tensors)
        return tensors

    call: dict[str, Any] = {"height": side, "width": side, "num_frames": 9, "output_type": "pt"}
    call |= {"generator": torch.Generator().manual_seed(0), "num_inference_steps": 2}
    clip = pipe(prompt="a cat", callback_on_step_end=note, **call).frames[0]
    latents = preview.unpacked(pipe, last["latents"], side, side, 9)
    clean = preview.unscaled(pipe.vae, preview.channels_first(pipe.vae, latents))
    with torch.no_grad():
        found = pipe.vae.decode(clean.to(pipe.vae.dtype), return_dict=False)[0]
    found = (found / 2 + 0.5).clamp(0, 1)[0].transpose(0, 1)
    torch.testing.assert_close(found, clip, atol=1e-4, rtol=1e-4)
