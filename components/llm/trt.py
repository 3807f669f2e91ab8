"""`llm/trt`: language models on TensorRT-LLM's LLM API (PyTorch backend), in this process.

Written against the API's documentation (1.2 to 1.4; EAGLE 3 from 1.3 on); it needs an NVIDIA GPU
and wasn't run on one yet.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import tensorrt_llm  # pyright: ignore[reportMissingImports]
import torch
from tensorrt_llm import llmapi  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

from ..base import Context, Setup
from ..errors import BadInput, MissingRequirement
from ..frames import (
    Completed,
    Frame,
    Likeliest,
    Message,
    Prompt,
    TextDelta,
    Usage,
)
from ..models import lacking, locate
from .chat import check_adapter, choice_json, with_defaults
from .detokenise import Detokeniser
from .hfprompt import PromptWriter
from .promptllm import PromptLlm
from .toolprompt import ToolReader, for_template
from .trtoptions import TrtLlmOptions


class TrtLlm(PromptLlm):
    """One engine for all sessions, batched in flight by TensorRT-LLM. Closing a run aborts its
    request in the engine."""

    options = TrtLlmOptions
    concurrency = 64

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._options = TrtLlmOptions.model_validate(dict(setup.options))
        self._llm: Any = None
        self._writer: PromptWriter | None = None
        self._active = 0

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        if not setup.model:
            return ["llm/trt needs `model:`, a folder or hub id of a checkpoint"]
        options = TrtLlmOptions.model_validate(dict(setup.options))
        found = torch.cuda.device_count()
        lacks = lacking(setup.model, "llm/trt", "config.json")
        if found < options.parallelism.gpus:
            lacks.append(f"llm/trt needs {options.parallelism.gpus} NVIDIA GPUs, {found} are here")
        return lacks

    async def load(self) -> None:
        """Load the model onto its GPUs and answer one prompt to warm it up.

        Raises:
            MissingRequirement: the model isn't there, or isn't quantised as the options say.
        """
        await asyncio.to_thread(self._load)
        async for _ in self.answer(_HELLO, Context()):
            pass

    def _load(self) -> None:
        options, api = self._options, cast(Any, llmapi)
        folder = locate(self.setup.model or "")
        check_quantised(folder, options.quantised, where=self.setup.node)
        self._writer = PromptWriter(
            folder, family=None, image_token=-1, template=options.chat_template
        )
        arguments: dict[str, Any] = {
            "model": str(folder),
            "dtype": options.dtype,
            "trust_remote_code": options.trust_remote_code,
            "kv_cache_config": api.KvCacheConfig(**options.cache.arguments()),
            "max_batch_size": options.batch or self.setup.concurrency,
            "max_num_tokens": options.batch_tokens,
            "enable_chunked_prefill": options.chunked_prompts,
            **options.parallelism.arguments(),
        }
        if options.context_tokens is not None:
            arguments["max_seq_len"] = options.context_tokens
        if options.speculation is not None:
            arguments["speculative_config"] = options.speculation.made(api)
        if options.grammar is not None:
            arguments["guided_decoding_backend"] = options.grammar
        self._llm = cast(Any, tensorrt_llm).LLM(**arguments)

    async def answer(self, prompt: Prompt, context: Context) -> AsyncGenerator[Frame, None]:
        context.check(where=self.setup.node)
        writer = self.loaded(self._writer)
        self._check(prompt)
        calls, told = for_template(prompt, writer.knows_tools)
        ids = await asyncio.to_thread(writer.write, told, ())
        reader = ToolReader(prompt, where=self.setup.node) if calls else None
        self._active += 1
        try:
            async with aclosing(self._stream(writer, told, ids)) as pieces:
                async for piece in pieces:
                    for frame in reader.feed(piece) if reader else (piece,):
                        yield frame
        finally:
            self._active -= 1

    def _check(self, prompt: Prompt) -> None:
        choice_json(prompt)
        check_adapter(prompt, where=self.setup.node)
        node = self.setup.node
        if any(message.images for message in prompt.messages):
            raise BadInput("llm/trt reads no pictures here", where=node, param="messages")
        held = prompt.schema is not None or (
            prompt.tools and prompt.tool_choice not in ("auto", "none")
        )
        if held and self._options.grammar is None:
            raise BadInput(
                "answers can't be held to a schema: options.grammar is off",
                where=node,
                param="response_format",
            )

    def sampling(self, prompt: Prompt, ends: Iterable[int]) -> Any:
        """The prompt's wishes as the API's `SamplingParams`; `ends` are the tokens that end it.

        Without a seed the API takes the same for every request, and without `ends` it knows of the
        tokenizer's alone. Greedy is top_k 1, which every release documents.
        """
        options, api = self._options, cast(Any, llmapi)
        filled = with_defaults(
            prompt,
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            top_p=options.top_p,
        )
        arguments: dict[str, Any] = {
            "max_tokens": filled.max_tokens,
            "seed": secrets.randbits(63) if prompt.seed is None else prompt.seed % 2**63,
            "stop_token_ids": sorted(ends),
            "logprobs": None if prompt.logprobs is None else max(prompt.logprobs, 1),
            # Tokens become text here, so that stop strings and split characters are right.
            "detokenize": False,
        }
        if filled.temperature == 0:
            arguments["top_k"] = 1
        else:
            arguments |= {"temperature": filled.temperature, "top_p": filled.top_p}
        if prompt.schema is not None:
            guide = {"json": dict(prompt.schema)} if prompt.schema else {"json_object": True}
            arguments["guided_decoding"] = api.GuidedDecodingParams(**guide)
        return api.SamplingParams(**arguments)

    def _begun(self, ids: list[int], sampling: Any) -> Any:
        """The request, given to the engine.

        Raises:
            BadInput: it won't take it, as a rule for its length.
        """
        try:
            return self.loaded(self._llm).generate_async(ids, sampling, streaming=True)
        except ValueError as error:
            raise BadInput(
                f"a prompt of {len(ids)} tokens is refused: {str(error)[:200]}",
                where=self.setup.node,
                param="messages",
            ) from error

    async def _stream(
        self, writer: PromptWriter, prompt: Prompt, ids: list[int]
    ) -> AsyncGenerator[Frame, None]:
        began_s, first_ms, taken = time.monotonic(), 0.0, 0
        text, reason = Detokeniser(writer.decode, prompt.stop), "stop"
        request = self._begun(ids, self.sampling(prompt, writer.ends))
        finished = False
        try:
            async for result in request:
                first_ms = first_ms or (time.monotonic() - began_s) * 1000
                output = result.outputs[0]
                fresh = list(output.token_ids[taken:])
                piece = "".join(text.push(token) for token in fresh if not text.stopped)
                scores = _scores(writer, output, taken, prompt.logprobs)
                taken += len(fresh)
                if piece or (scores[0] and not text.stopped):
                    yield TextDelta(piece, prompt.spoken, *scores)
                if text.stopped:
                    break
                reason = output.finish_reason or reason
                finished = bool(result.finished)
        finally:
            if not finished:
                request.abort()
        if rest := "" if text.stopped else text.finish():
            yield TextDelta(rest, prompt.spoken)
        ended = "length" if reason == "length" and not text.stopped else "stop"
        yield Completed(ended, Usage(len(ids), taken), first_ms)

    async def close(self) -> None:
        llm, self._llm = self._llm, None
        if llm is not None:
            await asyncio.to_thread(llm.shutdown)

    def utilisation(self) -> float | None:
        """Share of the batch that is in use."""
        return min(1.0, self._active / (self._options.batch or self.setup.concurrency))


def _scores(
    writer: PromptWriter, output: Any, start: int, wanted: int | None
) -> tuple[tuple[tuple[str, float], ...], tuple[Likeliest, ...]]:
    """Log probabilities of the tokens from `start` on. For each the API has a mapping of tokens to
    values, or, where it ranks none, the chosen one's alone."""
    if wanted is None or not output.logprobs:
        return (), ()
    name = writer.token_text
    chosen: list[tuple[str, float]] = []
    top: list[Likeliest] = []
    scores = cast("Sequence[Mapping[int, Any] | float]", output.logprobs[start:])
    for token, places in zip(output.token_ids[start:], scores, strict=False):
        ranked = isinstance(places, Mapping)
        chosen.append((name(token), float(places[token].logprob if ranked else places)))
        likely = places.items() if ranked else ()
        best = sorted(likely, key=lambda one: -one[1].logprob)[:wanted]
        top.append(Likeliest(tuple((name(key), float(one.logprob)) for key, one in best)))
    return tuple(chosen), tuple(top) if wanted else ()


def check_quantised(folder: Path, wanted: str | None, *, where: str) -> None:
    """Refuse a checkpoint that isn't quantised as was said.

    Raises:
        MissingRequirement: it is quantised otherwise, or not at all.
    """
    if wanted is None:
        return
    found = "none"
    file = folder / "hf_quant_config.json"
    if file.is_file():
        said = json.loads(file.read_text(encoding="utf-8")).get("quantization", {})
        found = str(said.get("quant_algo") or "none")
    if found != wanted:
        raise MissingRequirement(
            f"{folder.name} is quantised as {found!r}, the options say {wanted!r}", where=where
        )


_HELLO = Prompt((Message("user", "Hello"),), max_tokens=2)
