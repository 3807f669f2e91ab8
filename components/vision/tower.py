"""The vision side of a vision-language model: pixels to the rows that its language model reads.

Only that side is loaded: the text layers are left out by a configuration that has none, and what
remains of them is dropped. The rows equal those of the whole model, bit by bit, per picture.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from transformers import AutoConfig, AutoImageProcessor, AutoModelForImageTextToText

from ..errors import BadInput, MissingRequirement
from ..loading import quiet_loading
from ..pixels import Pixels
from ..vlm import Family, Picture, family_of
from .cache import digest_of
from .looking import Looking, Settings, looking_of

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class VisionTower:
    """One encoder in memory. Not thread-safe: give it a thread of its own.

    Raises:
        MissingRequirement: the folder holds no vision-language model of a known family.
    """

    def __init__(self, folder: Path, *, device: str, dtype: str, threads: int) -> None:
        configs, models, processors = _factories()
        config = configs.from_pretrained(str(folder), local_files_only=True)
        self.family: Family = family_of(str(config.model_type))
        self.model_type = str(config.model_type)
        self.dtype = dtype
        self._threads = threads
        self._device = torch.device(device)
        try:
            self._processor: Any = processors.from_pretrained(str(folder), local_files_only=True)
        except (OSError, ValueError) as error:
            raise MissingRequirement(
                f"{folder.name}: no image processor ({str(error)[:100]})", where="model"
            ) from error
        self.looking: Looking = looking_of(self.family, self._processor, config)
        config.text_config.num_hidden_layers = 0
        if getattr(config.text_config, "layer_types", None):
            config.text_config.layer_types = []
        with quiet_loading():
            whole = models.from_pretrained(
                str(folder),
                config=config,
                local_files_only=True,
                dtype=DTYPES[dtype],
                use_safetensors=True,
            )
        self._model: Any = _without_text(whole.eval()).to(self._device)
        self.revision = revision_of(folder)
        said = json.dumps(self._processor.to_dict(), sort_keys=True, default=str)
        self.fingerprint = digest_of(self.revision, said, dtype, self.model_type)

    def key(self, pixels: Pixels, settings: Settings) -> str:
        """What decides the rows of a picture: pixels, processor, model, dtype."""
        return digest_of(pixels, json.dumps(settings, sort_keys=True), self.fingerprint)

    def prepare(self, pixels: Pixels, settings: Settings) -> dict[str, Any]:
        """The model's inputs for one picture; thread-safe."""
        more: dict[str, Any] = {"return_row_col_info": True} if self.family == "idefics" else {}
        try:
            out = self._processor(images=[pixels], return_tensors="pt", **settings, **more)
        except ValueError as error:
            raise BadInput(str(error)[:200], where="image", param="messages") from error
        return dict(out)

    @torch.inference_mode()
    def encode(self, batch: list[dict[str, Any]]) -> list[Picture]:
        """The rows of prepared pictures, in order."""
        torch.set_num_threads(self._threads)
        moved = [{name: self._moved(value) for name, value in one.items()} for one in batch]
        return [self._one(inputs) for inputs in moved]

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        value = value.to(self._device)
        return value.to(DTYPES[self.dtype]) if value.is_floating_point() else value

    def _one(self, inputs: dict[str, Any]) -> Picture:
        pixels = inputs["pixel_values"]
        if self.family == "qwen":
            grid = inputs["image_grid_thw"]
            out = self._model.get_image_features(pixels, grid)
            t, h, w = (int(n) for n in grid[0])
            return self._picture(out.pooler_output[0], grid=(t, h, w))
        if self.family == "idefics":
            tiles = (int(inputs["rows"][0][0]), int(inputs["cols"][0][0]))
            rows = self._tiles(pixels, inputs.get("pixel_attention_mask"))
            return self._picture(rows.reshape(-1, rows.shape[-1]), tiles=tiles)
        config = self._model.config
        more = {"image_sizes": inputs["image_sizes"]} if self.family == "llava_next" else {}
        out = self._model.get_image_features(
            pixels,
            vision_feature_layer=config.vision_feature_layer,
            vision_feature_select_strategy=config.vision_feature_select_strategy,
            **more,
        )
        return self._picture(out.pooler_output[0])

    def _tiles(self, pixels: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """(1, tiles, 3, side, side) to (tiles, tokens, dim).

        Not by the model's own method: that takes tiles of zeros for padding and leaves them out,
        though a picture may be that.
        """
        pixels = pixels[0]
        if mask is None:
            mask = torch.ones(pixels.shape[0], *pixels.shape[2:], device=self._device)
        side = int(self._model.config.vision_config.patch_size)
        patches = mask.reshape(-1, *mask.shape[-2:])
        patches = patches.unfold(1, side, side).unfold(2, side, side)
        seen = (patches.sum(dim=(-1, -2)) > 0).bool()
        out = self._model.vision_model(pixel_values=pixels, patch_attention_mask=seen)
        return self._model.connector(out.last_hidden_state)

    def _picture(self, rows: torch.Tensor, **place: Any) -> Picture:
        rows = rows.contiguous().cpu()
        if self.dtype == "bfloat16":
            bits = rows.view(torch.int16).numpy().view(np.uint16)
            return Picture(bits, dtype=self.dtype, **place)
        return Picture(rows.numpy(), dtype=self.dtype, **place)


def _factories() -> tuple[Any, Any, Any]:
    return AutoConfig, AutoModelForImageTextToText, AutoImageProcessor


def _without_text(whole: Any) -> Any:
    """The inner model, its text side gone."""
    inner = whole.model
    for name in ("language_model", "text_model"):
        if name in cast("dict[str, Any]", inner._modules):
            setattr(inner, name, None)
    return inner


def revision_of(folder: Path) -> str:
    """What tells two versions of a model apart: its files' names, sizes, times and headers."""
    files = sorted([*folder.glob("*.safetensors"), *folder.glob("*.json")])
    parts: list[str | bytes] = []
    for file in files:
        stat = file.resolve().stat()
        with file.open("rb") as opened:
            parts += [file.name, f"{stat.st_size} {stat.st_mtime_ns}", opened.read(65536)]
    return digest_of(*parts)
