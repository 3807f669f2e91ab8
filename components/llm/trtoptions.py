"""Options of `llm/trt`: parallelism, cache, speculation and quantisation, typed as they are passed.

Each maps to one argument of TensorRT-LLM's LLM API; what a release doesn't know is refused by it.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from ..base import Options


class Parallelism(Options):
    """Over how many GPUs a model is spread, and how."""

    tensor: int = Field(1, ge=1)
    pipeline: int = Field(1, ge=1)
    experts: int | None = Field(None, ge=1, description="expert parallelism of MoE layers")

    @property
    def gpus(self) -> int:
        """GPUs that it takes."""
        return self.tensor * self.pipeline

    def arguments(self) -> dict[str, Any]:
        """As arguments of `LLM`."""
        found: dict[str, Any] = {
            "tensor_parallel_size": self.tensor,
            "pipeline_parallel_size": self.pipeline,
        }
        return found | (
            {"moe_expert_parallel_size": self.experts} if self.experts is not None else {}
        )


class KeysAndValues(Options):
    """The cache of keys and values. `reuse` shares blocks of equal prefixes between prompts."""

    reuse: bool = True
    partial_reuse: bool = True
    gpu_fraction: float = Field(0.9, gt=0, lt=1, description="of the GPU memory that is free")
    host_mib: int = Field(0, ge=0, description="blocks that leave the GPU wait here")
    dtype: Literal["auto", "fp8", "nvfp4"] = "auto"

    def arguments(self) -> dict[str, Any]:
        """As arguments of `KvCacheConfig`."""
        return {
            "enable_block_reuse": self.reuse,
            "enable_partial_reuse": self.partial_reuse,
            "free_gpu_memory_fraction": self.gpu_fraction,
            "host_cache_size": self.host_mib * 1024 * 1024,
            "dtype": self.dtype,
        }


class Speculation(Options):
    """Drafts that the model checks many tokens of at once; the answer stays the model's own.

    "ngram" drafts what followed the same words before, "draft" and "eagle3" with the small `model`,
    "mtp" with layers that the model brings (DeepSeek).
    """

    method: Literal["ngram", "draft", "eagle3", "mtp"]
    draft_tokens: int = Field(3, ge=1, le=64)
    model: str | None = None
    longest_match: int = Field(3, ge=1, le=16, description="words looked up by ngram, in tokens")

    @model_validator(mode="after")
    def complete(self) -> Speculation:
        """Refuse a method without its model, and a model that it would ignore."""
        needs = self.method in ("draft", "eagle3")
        if needs != (self.model is not None):
            raise ValueError(f"method {self.method!r} {'needs a' if needs else 'takes no'} `model`")
        return self

    def made(self, api: Any) -> Any:
        """As the LLM API's own configuration object, from its module."""
        if self.method == "ngram":
            return api.NGramDecodingConfig(
                max_draft_len=self.draft_tokens, max_matching_ngram_size=self.longest_match
            )
        if self.method == "mtp":
            # Until 1.2 the second name counts, from 1.3 on the first.
            return api.MTPDecodingConfig(
                max_draft_len=self.draft_tokens, num_nextn_predict_layers=self.draft_tokens
            )
        kind = api.DraftTargetDecodingConfig if self.method == "draft" else api.Eagle3DecodingConfig
        return kind(max_draft_len=self.draft_tokens, speculative_model=self.model)


class TrtLlmOptions(Options):
    """Options of `llm/trt`; tokens are the model's own.

    Quantised weights (FP8, NVFP4, AWQ) come with their checkpoint, whose own configuration says
    how; `quantised` refuses to load one of another kind. The cache's type is `cache.dtype`.
    """

    dtype: Literal["auto", "float16", "bfloat16", "float32"] = "auto"
    quantised: Literal["FP8", "NVFP4", "W4A16_AWQ", "W4A8_AWQ", "INT8", "none"] | None = None
    parallelism: Parallelism = Field(default_factory=lambda: Parallelism.model_validate({}))
    cache: KeysAndValues = Field(default_factory=lambda: KeysAndValues.model_validate({}))
    speculation: Speculation | None = None
    context_tokens: int | None = Field(None, ge=64, description="None: the model's own")
    batch: int | None = Field(None, ge=1, description="answers at a time; the node's concurrency")
    batch_tokens: int = Field(8192, ge=64, description="tokens in one step, prompts among them")
    chunked_prompts: bool = Field(True, description="long prompts share steps with answers")
    grammar: Literal["xgrammar", "llguidance"] | None = Field(
        "xgrammar", description="what holds answers to a JSON schema; None: schemas are refused"
    )
    max_tokens: int = Field(512, ge=1, description="limit where the prompt sets none")
    temperature: float = Field(0.7, ge=0, le=2)
    top_p: float = Field(0.95, gt=0, le=1)
    chat_template: str | None = Field(None, description="Jinja, instead of the model's own")
    trust_remote_code: bool = False
