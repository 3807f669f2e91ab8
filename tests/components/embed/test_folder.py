"""What a model's folder says of how it embeds, and what it can't say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from motet.components.embed.folder import read_layout
from motet.components.errors import BadInput


def folder_of(place: Path, **files: Any) -> Path:
    for name, value in files.items():
        (place / f"{name}.json").write_text(json.dumps(value))
    return place


def step(name: str) -> dict[str, str]:
    return {"type": f"sentence_transformers.models.{name}"}


def test_a_step_that_would_be_left_out_is_refused(tmp_path: Path) -> None:
    steps = [step("Transformer"), step("Pooling"), step("Dense"), step("Normalize")]
    place = folder_of(tmp_path, config={"architectures": ["BertModel"]}, modules=steps)
    with pytest.raises(BadInput, match=r"step Dense is not possible; known: Transformer, Pooling"):
        read_layout(place)


@pytest.mark.parametrize("names", [("Transformer", "Pooling"), ("Transformer", "Normalize")])
def test_vectors_are_normalised_where_the_steps_say_so(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    place = folder_of(tmp_path, config={"architectures": ["A"]}, modules=list(map(step, names)))
    assert read_layout(place).normalise == ("Normalize" in names)


@pytest.mark.parametrize(
    ("files", "longest"),
    [
        ({}, 514),
        ({"tokenizer_config": {"model_max_length": 512}}, 512),
        ({"tokenizer_config": {"model_max_length": 10**30}}, 514),
        (
            {
                "tokenizer_config": {"model_max_length": 512},
                "sentence_bert_config": {"max_seq_length": 128},
            },
            128,
        ),
    ],
)
def test_a_text_is_as_long_as_model_and_tokenizer_take(
    files: dict[str, Any], longest: int, tmp_path: Path
) -> None:
    place = folder_of(tmp_path, config={"max_position_embeddings": 514}, **files)
    assert read_layout(place).max_tokens == longest


def test_decoders_pool_their_last_token(tmp_path: Path) -> None:
    assert read_layout(folder_of(tmp_path, config={"architectures": ["BertModel"]})).pooling == (
        "mean"
    )
    assert read_layout(folder_of(tmp_path, config={"architectures": ["Qwen3Model"]})).pooling == (
        "last"
    )
