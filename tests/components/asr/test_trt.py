"""asr/trt against a stand-in for TensorRT-LLM's LLM API, as its Whisper tests call it.

It shows what is asked of the API and what is made of its answer, and nothing of how it behaves.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
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
END, DE = 256, 259


class Params:
    """`SamplingParams` with the fields that the API documents."""

    known = ("max_tokens", "temperature", "logprobs", "detokenize", "use_beam_search", "best_of")

    def __init__(self, **fields: Any) -> None:
        assert set(fields) <= {*self.known, "n"}
        self.fields = fields


class Llm:
    """`LLM`: takes audio with the beginning of a transcript, writes a letter and the end."""

    def __init__(self, **arguments: Any) -> None:
        self.made = arguments
        self.asked: list[tuple[str, int, dict[str, Any]]] = []
        self.closed = False

    def generate(self, inputs: list[dict[str, Any]], params: list[Params]) -> list[Any]:
        answers = []
        for n, (one, how) in enumerate(zip(inputs, params, strict=True)):
            assert set(one) == {"prompt", "multi_modal_data"}
            ((samples, rate),) = one["multi_modal_data"]["audio"]
            assert samples.dtype == np.float32
            self.asked.append((one["prompt"], rate, how.fields))
            tokens = [DE] if one["prompt"] == "<|startoftranscript|>" else [72 + n, 105, END]
            scores = [{token: SimpleNamespace(logprob=-0.25)} for token in tokens]
            output = SimpleNamespace(token_ids=tokens, logprobs=scores)
            answers.append(SimpleNamespace(outputs=[output]))
        return answers

    def shutdown(self) -> None:
        self.closed = True


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    root, api = ModuleType("tensorrt_llm"), ModuleType("tensorrt_llm.llmapi")
    root.LLM, root.llmapi = Llm, api  # type: ignore[attr-defined]
    api.SamplingParams = Params  # type: ignore[attr-defined]
    api.KvCacheConfig = api.SchedulerConfig = SimpleNamespace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorrt_llm", root)
    monkeypatch.setitem(sys.modules, "tensorrt_llm.llmapi", api)
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
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 51866}))
    (tmp_path / "preprocessor_config.json").write_text("{}")
    return tmp_path


def engine(module: Any, folder: Path, beam_size: int = 1, dtype: str | None = None) -> Any:
    return module.TrtWhisper(folder, batch=4, beam_size=beam_size, gpu_fraction=0.8, dtype=dtype)


def request(**more: Any) -> Request:
    return Request(np.zeros(16_000, np.float32), **more)


def test_a_batch_is_asked_as_the_api_says(module: Any, folder: Path) -> None:
    whisper = engine(module, folder, dtype="bfloat16")
    made = whisper._llm.made
    assert (made["max_batch_size"], made["max_beam_width"], made["max_input_len"]) == (4, 1, 1500)
    assert made["max_num_tokens"] == 4 * 1500
    assert made["model_kwargs"] == {"torch_dtype": made["dtype"]} == {"torch_dtype": "bfloat16"}
    assert made["kv_cache_config"].cross_kv_cache_fraction == 0.5
    first, second = whisper.decode_once(
        [request(language="en"), request(language="de", task="translate", temperature=0.4)]
    )
    (one, rate, how), (other, _, warm) = whisper._llm.asked
    assert one == "<|startoftranscript|><|en|><|transcribe|><|notimestamps|>"
    assert other == "<|startoftranscript|><|de|><|translate|><|notimestamps|>"
    assert rate == 16_000
    assert (how["max_tokens"], how["temperature"], warm["temperature"]) == (22, 0.0, 0.4)
    assert (first.tokens, second.tokens) == ((72, 105), (73, 105))
    assert (first.language, second.language) == ("en", "de")
    assert first.logprob == -0.25
    whisper.close()
    assert whisper._llm.closed


def test_a_language_is_what_the_model_would_write_first(module: Any, folder: Path) -> None:
    whisper = engine(module, folder)
    found = whisper.decode_once([request(language="en"), request()])
    assert [one.language for one in found] == ["en", "de"]
    prompts = [prompt for prompt, _, _ in whisper._llm.asked]
    assert prompts[0] == "<|startoftranscript|>", "one token, of those that name none"
    assert prompts[2] == "<|startoftranscript|><|de|><|transcribe|><|notimestamps|>"


def test_beams_have_no_temperature(module: Any, folder: Path) -> None:
    whisper = engine(module, folder, beam_size=3)
    (found,) = whisper.decode_once([request(language="en", temperature=0.4)])
    how = whisper._llm.asked[0][2]
    assert (how["use_beam_search"], how["best_of"], how["n"]) == (True, 3, 1)
    assert (how["temperature"], found.temperature) == (0.0, 0.0)


def test_scores_may_come_unranked(module: Any) -> None:
    assert module.mean_logprob([1, 2], [{1: SimpleNamespace(logprob=-1.0)}, {}]) == -1.0
    assert module.mean_logprob([1, 2], [-1.0, -2.0]) == -1.5
    assert module.mean_logprob([1], None) == 0.0


def test_what_it_has_not_is_refused(module: Any, folder: Path) -> None:
    whisper = engine(module, folder)
    with pytest.raises(BadInput, match="no timestamps"):
        whisper.decode_once([request(language="en", timestamps=True)])
    with pytest.raises(BadInput, match="known: de, en"):
        whisper.decode_once([request(language="dx")])
    (folder / "tokenizer.json").unlink()
    with pytest.raises(MissingRequirement, match=r"no tokenizer\.json"):
        engine(module, folder)


def test_what_is_missing_is_named(
    module: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from motet.components.asr import trt
    from motet.components.asr.trt import TrtAsr

    for release, lacks in (("1.2.1", True), ("1.3.0rc27", False), ("1.10.0", False)):
        monkeypatch.setattr(trt, "version", lambda _, release=release: release)
        said = " ".join(TrtAsr.requirements(Setup("asr", str(folder))))
        assert (f"{release} is here" in said) == lacks
    assert "a Whisper model" in TrtAsr.requirements(Setup("asr"))[0]
    if not torch.cuda.is_available():
        assert "NVIDIA GPU" in TrtAsr.requirements(Setup("asr", str(folder)))[0]


def test_without_the_package_check_names_the_extra() -> None:
    if registry.ENTRIES["asr/trt"].missing:
        with pytest.raises(MissingRequirement, match=r"motet\[trt\]"):
            registry.component_class("asr/trt")
