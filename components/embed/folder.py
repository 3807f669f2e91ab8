"""What a model's folder says of how it embeds: pooling, normalising, length, prompts.

Sentence-transformers' layout: `modules.json` lists the steps, `1_Pooling/config.json` the pooling,
`sentence_bert_config.json` the length, `config_sentence_transformers.json` the prompts. Where that
says no length, the model's own and its tokenizer's count, the shorter of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..errors import BadInput

Pooling = Literal["mean", "cls", "last", "max"]
FLAGS: dict[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
    "pooling_mode_max_tokens": "max",
}
STEPS = ("Transformer", "Pooling", "Normalize")
DECODERS = ("CausalLM", "LlamaModel", "MistralModel", "Qwen2Model", "Qwen3Model", "GemmaModel")


@dataclass(frozen=True, slots=True)
class Layout:
    """How a model embeds; `max_tokens` counts special tokens too."""

    pooling: Pooling
    normalise: bool
    max_tokens: int
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])


def read_layout(folder: Path) -> Layout:
    """Read it from the folder; without sentence-transformers' files, by the architecture:
    decoders pool their last token, encoders the mean.

    Raises:
        BadInput: no config.json, or a pooling or a step that isn't known.
    """
    config = read(folder / "config.json")
    if not config:
        raise BadInput(f"{folder.name}: no config.json", where="model")
    steps = module_types(folder / "modules.json")
    if unknown := [step for step in steps if step not in STEPS]:
        raise BadInput(
            f"step {', '.join(unknown)} is not possible; known: {', '.join(STEPS)}",
            where="modules.json",
        )
    pooling = read(folder / "1_Pooling" / "config.json")
    prompts: dict[str, str] = read(folder / "config_sentence_transformers.json").get("prompts", {})
    return Layout(
        pooling=declared(pooling) if pooling else by_architecture(config),
        normalise="Normalize" in steps or not steps,
        max_tokens=longest(folder, config),
        prompts=prompts,
    )


def declared(pooling: Mapping[str, Any]) -> Pooling:
    """The one pooling that the folder switches on."""
    found: list[Pooling] = [name for flag, name in FLAGS.items() if pooling.get(flag)]
    if len(found) != 1:
        raise BadInput(
            f"pooling {found or 'of another kind'} is not possible; known: {', '.join(FLAGS)}",
            where="1_Pooling/config.json",
        )
    return found[0]


def by_architecture(config: Mapping[str, Any]) -> Pooling:
    """What models without a pooling file are trained for."""
    names = " ".join(config.get("architectures") or [])
    return "last" if any(name in names for name in DECODERS) else "mean"


def longest(folder: Path, config: Mapping[str, Any]) -> int:
    """The most tokens that the model takes."""
    said = read(folder / "sentence_bert_config.json").get("max_seq_length")
    # Of some models (RoBERTa) not all positions are a text's; their tokenizers know how many are.
    said = said or read(folder / "tokenizer_config.json").get("model_max_length")
    positions = int(config.get("max_position_embeddings") or 512)
    return min(int(said), positions) if said else positions


def read(path: Path) -> dict[str, Any]:
    """A JSON file's object; {} where there is none."""
    return json.loads(path.read_text()) if path.exists() else {}


def module_types(path: Path) -> list[str]:
    """The types of a model's steps, as sentence-transformers lists them, less their modules."""
    steps: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return [str(step.get("type", "")).rpartition(".")[2] for step in steps]
