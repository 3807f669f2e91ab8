"""A stand-in with the documented signatures of TensorRT-LLM's LLM API (1.3), for text."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tinymodels import tokenizer


@dataclass(kw_only=True)
class SamplingParams:
    """The documented fields that are used."""

    max_tokens: int = 32
    seed: int | None = None
    stop_token_ids: list[int] | None = None
    logprobs: int | None = None
    detokenize: bool = True
    top_k: int | None = None
    top_p: float | None = None
    temperature: float | None = None
    guided_decoding: Any = None


@dataclass(kw_only=True)
class GuidedDecodingParams:
    json: Any = None
    json_object: bool = False


@dataclass(kw_only=True)
class KvCacheConfig:
    enable_block_reuse: bool = True
    enable_partial_reuse: bool = True
    free_gpu_memory_fraction: float | None = 0.9
    host_cache_size: int | None = None
    dtype: str = "auto"


@dataclass(kw_only=True)
class NGramDecodingConfig:
    max_draft_len: int | None = None
    max_matching_ngram_size: int = 2


@dataclass(kw_only=True)
class Eagle3DecodingConfig:
    max_draft_len: int | None = None
    speculative_model: str | None = None


class DraftTargetDecodingConfig(Eagle3DecodingConfig):
    pass


@dataclass(kw_only=True)
class MTPDecodingConfig:
    max_draft_len: int | None = None
    num_nextn_predict_layers: int | None = None


@dataclass
class Request:
    """What `generate_async` gives back: an async iterator of growing results."""

    steps: list[list[int]]
    logprobs: bool
    finish: str
    unranked: bool = False
    aborted: bool = False
    _at: int = 0

    def __aiter__(self) -> Request:
        return self

    async def __anext__(self) -> Any:
        if self._at >= len(self.steps):
            raise StopAsyncIteration
        self._at += 1
        tokens = [token for step in self.steps[: self._at] for token in step]
        over = self._at == len(self.steps)
        scores: list[Any] = [{token: SimpleNamespace(logprob=-0.25, rank=1)} for token in tokens]
        if self.unranked:
            scores = [-0.25 for _ in tokens]
        output = SimpleNamespace(
            token_ids=tokens,
            logprobs=scores if self.logprobs else [],
            finish_reason=self.finish if over else None,
        )
        return SimpleNamespace(outputs=[output], finished=over)

    def abort(self) -> None:
        self.aborted = True


@dataclass
class Llm:
    """The documented constructor arguments that are used, and two methods."""

    model: str
    dtype: str = "auto"
    trust_remote_code: bool = False
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    moe_expert_parallel_size: int | None = None
    kv_cache_config: Any = None
    max_batch_size: int | None = None
    max_num_tokens: int | None = None
    max_seq_len: int | None = None
    enable_chunked_prefill: bool = False
    speculative_config: Any = None
    guided_decoding_backend: str | None = None
    says: str = "Hi €, ok.<|im_end|>"
    finish: str = "stop"
    unranked: bool = False
    down: bool = False
    asked: list[tuple[list[int], SamplingParams]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def generate_async(
        self, inputs: list[int], sampling_params: SamplingParams, *, streaming: bool = False
    ) -> Request:
        assert streaming
        if self.max_seq_len and len(inputs) >= self.max_seq_len:
            raise ValueError(f"prompt length ({len(inputs)}) should not exceed max_seq_len")
        self.asked.append((list(inputs), sampling_params))
        ids = tokenizer().encode(self.says, add_special_tokens=False)
        steps = [ids[n : n + 2] for n in range(0, len(ids), 2)]
        request = Request(steps, bool(sampling_params.logprobs), self.finish, self.unranked)
        self.requests.append(request)
        return request

    def shutdown(self) -> None:
        self.down = True


@contextmanager
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of `llm/trt`, imported over the stand-in."""
    root, api = ModuleType("tensorrt_llm"), ModuleType("tensorrt_llm.llmapi")
    for kind in (
        SamplingParams,
        GuidedDecodingParams,
        KvCacheConfig,
        NGramDecodingConfig,
        Eagle3DecodingConfig,
        DraftTargetDecodingConfig,
        MTPDecodingConfig,
    ):
        setattr(api, kind.__name__, kind)
    root.LLM = Llm  # type: ignore[attr-defined]
    root.llmapi = api  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorrt_llm", root)
    monkeypatch.setitem(sys.modules, "tensorrt_llm.llmapi", api)
    monkeypatch.delitem(sys.modules, "motet.components.llm.trt", raising=False)
    yield importlib.import_module("motet.components.llm.trt")
    sys.modules.pop("motet.components.llm.trt", None)
