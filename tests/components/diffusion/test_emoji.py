"""The model in the box: its folder, its seeds, and that it draws and moves what words ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from torch import Tensor

from motet.components.diffusion.emoji import model
from motet.components.diffusion.emoji.common import clip_prompts
from motet.components.diffusion.emoji.movement import Movement, measure, motion_shown
from motet.components.diffusion.emoji.pipeline import EmojiOutput, EmojiPipeline
from motet.components.diffusion.emoji.planner import plan
from motet.components.diffusion.emoji.retrieval import Gallery

HERE = Path(__file__).parent
TILE_PX = 32
GALLERY_NAMES = (HERE / "emoji_gallery.txt").read_text(encoding="utf-8").splitlines()


pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def pipeline() -> Iterator[EmojiPipeline]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield model.load()
    torch.set_num_threads(threads)


def draw(pipeline: EmojiPipeline, prompt: str | list[str], seeds: list[int], **options) -> Tensor:
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    output = pipeline(prompt, generator=generators, output_type="pt", **options)
    assert isinstance(output, EmojiOutput)
    return output.frames


def gallery() -> Gallery:
    """Fifty training pictures at 32 x 32, from a sheet of ten columns."""
    sheet = np.asarray(Image.open(HERE / "emoji_gallery.png").convert("RGB"))
    rows, columns = sheet.shape[0] // TILE_PX, sheet.shape[1] // TILE_PX
    tiles = sheet.reshape(rows, TILE_PX, columns, TILE_PX, 3).transpose(0, 2, 4, 1, 3)
    frames = torch.tensor(tiles.reshape(-1, 3, TILE_PX, TILE_PX)) / 255
    return Gallery(GALLERY_NAMES, frames)


def test_weights_are_safetensors_of_at_most_30_megabytes() -> None:
    files = [path for path in model.folder().rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".json", ".safetensors", ".md"}
    weights = [path for path in files if path.suffix == ".safetensors"]
    assert sum(path.stat().st_size for path in files) <= 30_000_000
    assert {path.parent.name for path in weights} == {"transformer", "vae", "text_encoder"}
    for path in weights:
        with safe_open(path, framework="pt") as stored:
            assert all(stored.get_tensor(key).isfinite().all() for key in stored.keys())  # noqa: SIM118


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}: model_index.json is missing"):
        model.load(tmp_path)


def test_one_frame_is_a_picture_and_many_are_a_clip(pipeline: EmojiPipeline) -> None:
    assert draw(pipeline, "a cat", [0], num_inference_steps=2).shape == (1, 1, 3, 96, 96)
    clip = draw(pipeline, "a cat", [0], num_inference_steps=2, num_frames=16)
    assert clip.shape == (1, 16, 3, 96, 96)
    assert float(clip.min()) >= 0
    assert float(clip.max()) <= 1
    pictures = pipeline(["a cat", "a dog"], num_inference_steps=1).frames
    assert [frames[0].size for frames in pictures] == [(96, 96), (96, 96)]


def test_the_same_seed_draws_the_same_alone_and_in_a_batch(pipeline: EmojiPipeline) -> None:
    alone = draw(pipeline, "a rocket", [7], num_inference_steps=4)
    again = draw(pipeline, "a rocket", [7], num_inference_steps=4)
    both = draw(pipeline, ["an apple", "a rocket"], [1, 7], num_inference_steps=4)
    other = draw(pipeline, "a rocket", [8], num_inference_steps=4)
    assert torch.equal(alone, again)
    torch.testing.assert_close(both[1], alone[0], atol=2e-3, rtol=0)
    assert float((other - alone).abs().mean()) > 1e-3


def test_a_long_prompt_in_a_batch_does_not_change_its_neighbour(pipeline: EmojiPipeline) -> None:
    short = pipeline.encode_prompt(["a cat"])
    long = pipeline.encode_prompt(["a cat", "a very " + "big " * 40 + "dog"])
    assert long.shape[1] == short.shape[1]
    torch.testing.assert_close(long[:1], short, atol=1e-5, rtol=0)


@pytest.mark.slow
def test_common_things_look_like_themselves(pipeline: EmojiPipeline) -> None:
    prompts = [f"a {name}" for name in GALLERY_NAMES]
    pictures = draw(pipeline, prompts, [0] * len(prompts), num_inference_steps=8)
    ranks = gallery().ranks(pictures[:, 0], GALLERY_NAMES)
    assert sum(rank == 0 for rank in ranks) >= 0.95 * len(ranks)


def test_a_hamburger_is_nearest_to_the_hamburger(pipeline: EmojiPipeline) -> None:
    picture = draw(pipeline, "a hamburger", [0], num_inference_steps=10)
    assert gallery().nearest(picture[:, 0]) == ["hamburger"]


def test_a_colour_word_paints(pipeline: EmojiPipeline) -> None:
    pictures = draw(
        pipeline, ["a red car", "a blue car", "a green car"], [0, 0, 0], num_inference_steps=10
    )
    ink = (1 - pictures[:, 0]).mean(dim=(2, 3))
    assert ink.argmin(dim=1).tolist() == [0, 2, 1]


@pytest.mark.slow
@pytest.mark.timeout(90)
@pytest.mark.parametrize(
    ("words", "motion"),
    [
        ("flying up", "up"),
        ("growing", "grow"),
        ("swinging", "swing"),
    ],
)
def test_a_clip_moves_as_the_words_ask(pipeline: EmojiPipeline, words: str, motion: str) -> None:
    clip = draw(pipeline, f"a rocket {words}", [0], num_frames=16, num_inference_steps=8)
    assert motion in motion_shown(measure(clip[0]))


def test_the_path_of_a_clip_is_the_one_that_the_words_ask_for(pipeline: EmojiPipeline) -> None:
    asked = clip_prompts(100)
    path = plan(pipeline.text_encoder, pipeline.encode_prompt([words for words, _ in asked]), 16)
    rows = zip(path.x, path.y, path.size, path.degrees, strict=True)
    followed = [
        motion in motion_shown(Movement(*row)) for (_, motion), row in zip(asked, rows, strict=True)
    ]
    assert sum(followed) >= 98


def test_a_shorter_clip_goes_the_whole_way(pipeline: EmojiPipeline) -> None:
    words = pipeline.encode_prompt(["a rocket flying up"])
    whole, short = plan(pipeline.text_encoder, words, 16), plan(pipeline.text_encoder, words, 4)
    assert short.y.shape == (1, 4)
    torch.testing.assert_close(short.y[0, [0, -1]], whole.y[0, [0, -1]])
    assert float(short.y[0, -1]) < -0.25 < 0.25 < float(short.y[0, 0])


def test_without_words_of_motion_a_clip_stands_still(pipeline: EmojiPipeline) -> None:
    path = plan(pipeline.text_encoder, pipeline.encode_prompt(["a cat", "a red apple"]), 16)
    assert float(path.x.abs().max()) < 0.1
    assert float(path.y.abs().max()) < 0.1
    assert float(path.degrees.abs().max()) < 15


def test_guidance_of_one_needs_one_denoiser_call_a_step(pipeline: EmojiPipeline) -> None:
    calls = {"count": 0}

    def count(*_: object) -> None:
        calls["count"] += 1

    handle = pipeline.transformer.register_forward_hook(count)
    try:
        draw(pipeline, "a cat", [0], num_inference_steps=3, guidance_scale=1.0)
        assert calls["count"] == 3
        draw(pipeline, "a cat", [0], num_inference_steps=3, guidance_scale=2.0)
        assert calls["count"] == 9
    finally:
        handle.remove()


def test_a_callback_sees_each_step_and_can_stop(pipeline: EmojiPipeline) -> None:
    seen: list[int] = []

    def stop_at_second(
        running: EmojiPipeline, step: int, _: Tensor, state: dict[str, Tensor | None]
    ) -> dict[str, Tensor]:
        seen.append(step)
        assert state["latents"] is not None
        assert running.decode_latents(state["latents"], "pt").shape == (1, 1, 3, 96, 96)
        running._interrupt = step == 1
        return {}

    pipeline("a cat", num_inference_steps=5, callback_on_step_end=stop_at_second)
    assert seen == [0, 1]
    assert draw(pipeline, "a cat", [0], num_inference_steps=1).shape[1] == 1


def test_a_picture_can_be_the_start(pipeline: EmojiPipeline) -> None:
    apple = draw(pipeline, "a red apple", [0], num_inference_steps=10)
    start = Image.fromarray((apple[0, 0].permute(1, 2, 0).numpy() * 255).astype(np.uint8))
    near = draw(pipeline, "a green apple", [3], image=start, strength=0.2, num_inference_steps=10)
    far = draw(pipeline, "a green apple", [3], image=start, strength=1.0, num_inference_steps=10)
    assert float((near - apple).abs().mean()) < float((far - apple).abs().mean())


def test_a_picture_comes_to_where_the_weights_are() -> None:
    away: Any = model.load()
    away.to("meta")
    assert away.encode_image(Image.new("RGB", (96, 96)), 96, 96).device.type == "meta"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"height": 90}, "multiples of 16, got 90 and 96"),
        ({"num_frames": 0}, "num_frames must be 1 to 16, got 0"),
        ({"num_frames": 17}, "num_frames must be 1 to 16, got 17"),
        ({"num_inference_steps": 0}, "at least 1, got 0"),
        ({"strength": 0.0}, r"strength must lie in \(0, 1\], got 0.0"),
        ({"latents": torch.zeros(1, 16, 1, 6, 6)}, r"got shape \(1, 16, 1, 6, 6\)"),
        ({"generator": [torch.Generator()] * 2}, "got 2 generators for a batch of 1"),
        ({"callback_on_step_end_tensor_inputs": ["text"]}, r"\['text'\] are unknown"),
    ],
)
def test_bad_input_is_named(
    pipeline: EmojiPipeline, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        pipeline("a cat", **options)
