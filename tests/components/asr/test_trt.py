"""asr/trt against a stand-in for TensorRT-LLM's C++ runner, as its Whisper example calls it.

It shows what is asked of the runner and what is made of its answer, and nothing of how it behaves.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from motet.components import registry
from motet.components.asr.requests import Request
from motet.components.base import Setup
from motet.components.errors import BadInput, MissingRequirement

pytestmark = pytest.mark.timeout(60)

SPECIALS = (
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|en|>",
    "<|de|>",
    "<|translate|>",
    "<|transcribe|>",
    "<|startofprev|>",
    "<|notimestamps|>",
)
END, START, EN, DE, _, TASK, PREVIOUS, PLAIN = range(256, 264)


class Runner:
    """`ModelRunnerCpp` with the arguments of the example."""

    made: dict[str, Any]
    asked: dict[str, Any]
    echo = True

    @classmethod
    def from_dir(cls, **arguments: Any) -> Runner:
        runner = cls()
        runner.made = arguments
        return runner

    def generate(
        self,
        *,
        batch_input_ids: list[torch.Tensor],
        encoder_input_features: list[torch.Tensor],
        encoder_output_lengths: torch.Tensor,
        max_new_tokens: int,
        end_id: int,
        pad_id: int,
        num_beams: int,
        output_sequence_lengths: bool,
        return_dict: bool,
    ) -> dict[str, torch.Tensor]:
        self.asked = {
            "prompts": [ids.tolist() for ids in batch_input_ids],
            "shapes": [tuple(mel.shape) for mel in encoder_input_features],
            "lengths": encoder_output_lengths.tolist(),
            "most": max_new_tokens,
        }
        assert (output_sequence_lengths, return_dict, pad_id) == (True, True, end_id)
        rows = []
        for n, ids in enumerate(batch_input_ids):
            written = [*(ids.tolist() if self.echo else []), 72 + n, 105, end_id]
            rows.append([written + [pad_id] * (300 - len(written))] * num_beams)
        return {"output_ids": torch.tensor(rows)}


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    root, runtime = ModuleType("tensorrt_llm"), ModuleType("tensorrt_llm.runtime")
    runtime.ModelRunnerCpp = Runner  # type: ignore[attr-defined]
    root.runtime = runtime  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorrt_llm", root)
    monkeypatch.setitem(sys.modules, "tensorrt_llm.runtime", runtime)
    names = ("motet.components.asr.trtwhisper", "motet.components.asr.trt")
    for name in names:
        sys.modules.pop(name, None)
    from motet.components.asr import trtwhisper

    yield trtwhisper
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={token: n for n, token in enumerate(letters)}, merges=[]))
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True) for token in SPECIALS])
    made.save(str(tmp_path / "tokenizer.json"))
    for part, config in (("encoder", {"n_mels": 80}), ("decoder", {"vocab_size": 51866})):
        (tmp_path / part).mkdir()
        said = json.dumps({"pretrained_config": config})
        (tmp_path / part / "config.json").write_text(said)
    return tmp_path


def engine(module: Any, folder: Path, language: str | None = "en") -> Any:
    return module.TrtWhisper(folder, batch=4, beam_size=2, gpu_fraction=0.8, language=language)


def request(**more: Any) -> Request:
    return Request(np.zeros(16_000, np.float32), **more)


@pytest.mark.parametrize("echo", [True, False])
def test_a_batch_is_asked_as_the_example_does(module: Any, folder: Path, echo: bool) -> None:
    whisper = engine(module, folder)
    whisper._runner.echo = echo
    made = whisper._runner.made
    assert (made["is_enc_dec"], made["max_batch_size"], made["max_beam_width"]) == (True, 4, 2)
    context = tuple(range(30, 50))
    first, second = whisper.decode_once([request(), request(language="de", context=context)])
    asked = whisper._runner.asked
    assert asked["prompts"][0] == [START, EN, TASK, PLAIN]
    assert asked["prompts"][1] == [PREVIOUS, *context[-16:], START, DE, TASK, PLAIN]
    assert asked["shapes"] == [(3000, 80)] * 2
    assert asked["lengths"] == [1500] * 2
    assert (first.tokens, second.tokens) == ((72, 105), (73, 105))
    assert (first.language, second.language) == ("en", "de")


def test_what_it_has_not_is_refused(module: Any, folder: Path, tmp_path: Path) -> None:
    whisper = engine(module, folder, language=None)
    with pytest.raises(BadInput, match="doesn't detect languages"):
        whisper.decode_once([request()])
    with pytest.raises(BadInput, match="no timestamps"):
        whisper.decode_once([request(language="en", timestamps=True)])
    (folder / "tokenizer.json").unlink()
    with pytest.raises(MissingRequirement, match=r"no tokenizer\.json"):
        engine(module, folder)


def test_what_is_missing_is_named(module: Any, folder: Path) -> None:
    from motet.components.asr.trt import TrtAsr

    assert "trtllm-build" in TrtAsr.requirements(Setup("asr"))[0]
    if not torch.cuda.is_available():
        assert "NVIDIA GPU" in TrtAsr.requirements(Setup("asr", str(folder)))[0]


def test_without_the_package_check_names_the_extra() -> None:
    if registry.ENTRIES["asr/trt"].missing:
        with pytest.raises(MissingRequirement, match=r"motet\[trt\]"):
            registry.component_class("asr/trt")
