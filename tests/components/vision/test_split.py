"""Encoder and language model apart against the whole model, on tiny models of each family."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinymodels
import torch
from PIL import Image as Picture
from running import ask
from tinymodels import IMAGE, save
from transformers import AutoImageProcessor
from transformers.cache_utils import DynamicCache

from motet.components.base import Resources, Setup
from motet.components.frames import (
    Completed,
    Embedding,
    ImagePart,
    Message,
    Prompt,
    TextDelta,
)
from motet.components.llm.hf import HfLlm
from motet.components.llm.hfmodel import HfModel
from motet.components.llm.hfprompt import PromptWriter
from motet.components.vision.encoder import VisionEncoder
from motet.components.vision.tower import VisionTower

pytestmark = pytest.mark.timeout(60)

KINDS = ("qwen2_5_vl", "smolvlm", "idefics3", "llava", "llava_next")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in KINDS}
    return {kind: (folder, save(kind, folder)) for kind, folder in folders.items()}


def noise(width: int, height: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    file = BytesIO()
    Picture.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def whole_inputs(folder: Path, kind: str, pixels: list[np.ndarray[Any, Any]]) -> dict[str, Any]:
    processor: Any = AutoImageProcessor.from_pretrained(str(folder))
    images = [pixels] if kind in ("smolvlm", "idefics3") else pixels
    inputs = dict(processor(images=images, return_tensors="pt"))
    return {name: value for name, value in inputs.items() if name not in ("rows", "cols")}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [[(90, 120)], [(64, 64), (64, 64)]])
def test_split_logits_equal_the_whole_models(
    models: dict[str, tuple[Path, Any]], kind: str, sizes: list[tuple[int, int]]
) -> None:
    folder, whole = models[kind]
    pixels = [noise(width, height, n) for n, (width, height) in enumerate(sizes)]
    tower = VisionTower(folder, device="cpu", dtype="float32", threads=1)
    language = HfModel(folder, device="cpu", dtype="float32", threads=1, context_tokens=1024)
    pictures = tower.encode([tower.prepare(one, {}) for one in pixels])
    writer = PromptWriter(folder, family=language.family, image_token=IMAGE, template=None)
    part = Message("user", "What is it?", tuple(ImagePart(b"", at=0) for _ in pixels))
    ids = writer.write(Prompt((part,)), pictures)
    positions, _ = language.positions(ids, pictures)
    split = language.read(language.embed(ids, pictures), positions, DynamicCache())
    inputs = whole_inputs(folder, kind, pixels)
    if kind == "qwen2_5_vl":
        inputs["mm_token_type_ids"] = (torch.tensor([ids]) == IMAGE).int()
    with torch.inference_mode():
        logits = whole(input_ids=torch.tensor([ids]), logits_to_keep=1, **inputs).logits[0, -1]
    if len(pixels) == 1 or kind == "qwen2_5_vl":
        assert torch.equal(split, logits)
    else:
        # Pictures are encoded one by one, so that batches change nothing of what is cached.
        assert float((split - logits).abs().max()) < 1e-5


def test_a_language_model_loads_no_vision_and_an_encoder_no_text(
    models: dict[str, tuple[Path, Any]],
) -> None:
    for folder, whole in models.values():
        tower = VisionTower(folder, device="cpu", dtype="float32", threads=1)
        language = HfModel(folder, device="cpu", dtype="float32", threads=1, context_tokens=256)
        sizes = [
            sum(p.numel() for p in one.parameters())
            for one in (tower._model, language._model, whole)
        ]
        newline = 64  # LLaVA-NeXT's lies in both
        assert sizes[2] <= sizes[0] + sizes[1] <= sizes[2] + newline


@pytest.mark.parametrize("kind", KINDS)
async def test_components_write_what_the_whole_model_generates(
    models: dict[str, tuple[Path, Any]], kind: str
) -> None:
    folder, whole = models[kind]
    pixels = noise(70, 70)
    setup = Setup("n", str(folder), {}, Resources(), 4)
    encoder = VisionEncoder(setup)
    options = {"context_tokens": 512, "temperature": 0.0, "prompt_stretch": 4096}
    llm = HfLlm(Setup("llm", str(folder), options, Resources(), 4))
    await encoder.load()
    await llm.load()
    try:
        prompt = Prompt(
            (Message("user", "See <image>?", (ImagePart(png(pixels), at=4),)),), max_tokens=12
        )
        sent = await ask(encoder, prompt)
        assert [type(frame) for frame in sent] == [Embedding, Prompt]
        assert isinstance(sent[1], Prompt)
        assert sent[1].messages[0].images[0].data == b""
        answer = await ask(llm, *sent)
    finally:
        await encoder.close()
        await llm.close()
    text = "".join(frame.text for frame in answer if isinstance(frame, TextDelta))
    done = answer[-1]
    assert isinstance(done, Completed)
    assert isinstance(sent[0], Embedding)
    assert done.usage.image_tokens == sent[0].tokens
    tokens = tinymodels.tokenizer()
    model = HfModel(folder, device="cpu", dtype="float32", threads=1, context_tokens=512)
    writer = PromptWriter(folder, family=model.family, image_token=IMAGE, template=None)
    tower = VisionTower(folder, device="cpu", dtype="float32", threads=1)
    pictures = tower.encode([tower.prepare(pixels, {})])
    ids = writer.write(sent[1], pictures)
    assert ids.count(IMAGE) == pictures[0].tokens
    inputs = whole_inputs(folder, kind, [pixels])
    if kind == "qwen2_5_vl":
        inputs["mm_token_type_ids"] = (torch.tensor([ids]) == IMAGE).int()
    with torch.inference_mode():
        made = whole.generate(
            input_ids=torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            max_new_tokens=12,
            do_sample=False,
            **inputs,
        )
    assert text == tokens.decode(made[0, len(ids) :], skip_special_tokens=True)
    assert text


@pytest.mark.parametrize("kind", KINDS)
def test_black_and_blank_pictures_keep_their_places(
    models: dict[str, tuple[Path, Any]], kind: str
) -> None:
    folder, _ = models[kind]
    tower = VisionTower(folder, device="cpu", dtype="float32", threads=1)
    shown = [noise(64, 64), np.zeros((64, 64, 3), np.uint8), np.full((64, 64, 3), 255, np.uint8)]
    blank = [{"do_normalize": False}, {"do_normalize": False}, {}]
    pairs = zip(shown, blank, strict=True)
    pictures = tower.encode([tower.prepare(pixels, settings) for pixels, settings in pairs])
    assert len({picture.tokens for picture in pictures}) == 1
    assert all(np.isfinite(picture.rows).all() for picture in pictures)
