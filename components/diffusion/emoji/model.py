"""Finds, loads and saves the model in the box in diffusers' folder layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import torch
from diffusers.models.autoencoders.autoencoder_dc import AutoencoderDC
from diffusers.models.transformers.transformer_wan import WanTransformer3DModel
from diffusers.schedulers.scheduling_flow_match_euler_discrete import (
    FlowMatchEulerDiscreteScheduler,
)
from torch import nn
from transformers import BertTokenizer, DistilBertForSequenceClassification

from .pipeline import EmojiPipeline

SHIFT = 3.0


def folder() -> Path:
    """Where the weights lie in the installed package."""
    return Path(__file__).parent.parent / "weights" / "emoji"


def load(path: Path | None = None, dtype: torch.dtype = torch.float32) -> EmojiPipeline:
    """The pipeline from `path`, or the one in the box; weights lie in float16, and run as `dtype`.

    Nothing is downloaded. Raises FileNotFoundError where the folder holds no pipeline.
    """
    path = folder() if path is None else path
    if not (path / "model_index.json").is_file():
        raise FileNotFoundError(f"no diffusers pipeline in {path}: model_index.json is missing")
    kind = cast(Any, EmojiPipeline)
    pipeline: Any = kind.from_pretrained(path, dtype=dtype, local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def save(
    path: Path,
    tokenizer: BertTokenizer,
    text_encoder: DistilBertForSequenceClassification,
    transformer: WanTransformer3DModel,
    vae: AutoencoderDC,
) -> None:
    """Write all parts as float16 safetensors."""
    scheduler = FlowMatchEulerDiscreteScheduler(shift=SHIFT)
    for part in (text_encoder, transformer, vae):
        cast(nn.Module, part).half()
    pipeline: Any = EmojiPipeline(tokenizer, text_encoder, transformer, vae, scheduler)
    pipeline.save_pretrained(path, safe_serialization=True)
    for file in path.glob("*/config.json"):
        # Where a part was loaded from is nobody's business.
        config = {k: v for k, v in json.loads(file.read_text()).items() if k != "_name_or_path"}
        file.write_text(json.dumps(config, indent=2) + "\n")
