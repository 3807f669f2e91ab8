"""llm/trt against a stand-in with the documented signatures of TensorRT-LLM's LLM API (1.3).

What this can show: which arguments reach the API, and what is made of its results. It shows nothing
of how TensorRT-LLM behaves; that needs a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import ask, stream
from tinymodels import save, tokenizer
from trtfake import (
    DraftTargetDecodingConfig,
    Eagle3DecodingConfig,
    KvCacheConfig,
    MTPDecodingConfig,
    NGramDecodingConfig,
    SamplingParams,
    installed,
)

from motet.components import registry
from motet.components.base import Context, Setup
from motet.components.errors import BadInput, MissingRequirement
from motet.components.frames import (
    Completed,
    Message,
    Prompt,
    TextDelta,
    Tool,
    ToolCall,
    Voice,
)
from motet.components.llm.trtoptions import Speculation, TrtLlmOptions

pytestmark = pytest.mark.timeout(60)

END = tokenizer().eos_token_id


@pytest.fixture
def trt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with installed(monkeypatch) as module:
        yield module


@pytest.fixture(scope="module")
def folder(model: tuple[Path, Any]) -> Path:
    return model[0]


async def loaded(trt: Any, folder: Path, **options: Any) -> Any:
    component = trt.TrtLlm(Setup("llm", str(folder), options, concurrency=32))
    await component.load()
    component._llm.asked.clear()
    return component


async def test_options_reach_the_api_as_it_documents_them(trt: Any, folder: Path) -> None:
    component = await loaded(
        trt,
        folder,
        parallelism={"tensor": 2, "pipeline": 2, "experts": 2},
        cache={"gpu_fraction": 0.5, "host_mib": 8, "dtype": "fp8", "reuse": False},
        speculation={"method": "eagle3", "draft_tokens": 5, "model": "drafter"},
        context_tokens=4096,
    )
    llm = component._llm
    assert (llm.tensor_parallel_size, llm.pipeline_parallel_size) == (2, 2)
    assert llm.moe_expert_parallel_size == 2
    cache = KvCacheConfig(
        enable_block_reuse=False, free_gpu_memory_fraction=0.5, host_cache_size=2**23, dtype="fp8"
    )
    assert llm.kv_cache_config == cache
    assert llm.speculative_config == Eagle3DecodingConfig(
        max_draft_len=5, speculative_model="drafter"
    )
    assert (llm.max_batch_size, llm.max_seq_len, llm.guided_decoding_backend) == (
        32,
        4096,
        "xgrammar",
    )
    await component.close()
    assert llm.down


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"method": "ngram"}, NGramDecodingConfig(max_draft_len=3, max_matching_ngram_size=3)),
        (
            {"method": "mtp", "draft_tokens": 1},
            MTPDecodingConfig(max_draft_len=1, num_nextn_predict_layers=1),
        ),
        (
            {"method": "draft", "model": "m"},
            DraftTargetDecodingConfig(max_draft_len=3, speculative_model="m"),
        ),
    ],
)
def test_every_speculation_is_made(trt: Any, given: dict[str, Any], made: Any) -> None:
    found = Speculation.model_validate(given).made(trt.llmapi)
    assert type(found) is type(made)
    assert found == made


def test_options_that_contradict_themselves_are_refused() -> None:
    for speculation in ({"method": "draft"}, {"method": "ngram", "model": "x"}):
        with pytest.raises(ValueError, match="`model`"):
            TrtLlmOptions.model_validate({"speculation": speculation})
    with pytest.raises(ValueError, match="Extra inputs"):
        TrtLlmOptions.model_validate({"speculation": {"method": "mtp", "draftlen": 1}})


async def test_an_answer_streams_with_scores_and_usage(trt: Any, folder: Path) -> None:
    component = await loaded(trt, folder)
    prompt = Prompt(
        (Message("user", "Hi"),), max_tokens=9, temperature=0.0, seed=4, logprobs=1, spoken=False
    )
    voice, *answer = await ask(component, Voice("v"), prompt)
    assert voice == Voice("v")
    assert "".join(f.text for f in answer if isinstance(f, TextDelta)) == "Hi €, ok."
    scores = [pair for f in answer if isinstance(f, TextDelta) for pair in f.logprobs]
    assert {value for _, value in scores} == {-0.25}
    done = answer[-1]
    assert isinstance(done, Completed)
    ((ids, sampling),) = component._llm.asked
    assert done.usage.input_tokens == len(ids)
    assert sampling == SamplingParams(
        max_tokens=9, seed=4, stop_token_ids=[END], logprobs=1, detokenize=False, top_k=1
    )
    assert not component._llm.requests[-1].aborted


async def test_unseeded_answers_differ_and_seeded_ones_repeat(trt: Any, folder: Path) -> None:
    component = await loaded(trt, folder)
    for seed in (None, None, 7, 7):
        await ask(component, Prompt((Message("user", "Hi"),), seed=seed))
    first, second, *seeded = [sampling.seed for _, sampling in component._llm.asked]
    assert None not in (first, second)
    assert first != second
    assert seeded == [7, 7]


async def test_every_end_of_the_models_settings_ends_an_answer(trt: Any, tmp_path: Path) -> None:
    save("llama", tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [5, 6]}')
    component = await loaded(trt, tmp_path)
    await ask(component, Prompt((Message("user", "Hi"),)))
    assert component._llm.asked[-1][1].stop_token_ids == sorted({5, 6, END})


async def test_scores_may_come_unranked(trt: Any, folder: Path) -> None:
    component = await loaded(trt, folder)
    component._llm.unranked = True
    answer = await ask(component, Prompt((Message("user", "Hi"),), logprobs=2))
    scores = [pair for f in answer if isinstance(f, TextDelta) for pair in f.logprobs]
    assert {value for _, value in scores} == {-0.25}


async def test_a_prompt_that_is_too_long_is_the_callers_fault(trt: Any, folder: Path) -> None:
    component = await loaded(trt, folder, context_tokens=64)
    with pytest.raises(BadInput, match=r"prompt of \d+ tokens is refused: .*max_seq_len") as caught:
        await ask(component, Prompt((Message("user", "Hi " * 100),)))
    assert caught.value.param == "messages"


async def test_stop_strings_and_closed_runs_abort_the_request(trt: Any, folder: Path) -> None:
    component = await loaded(trt, folder)
    answer = await ask(component, Prompt((Message("user", "Hi"),), stop=(", o",)))
    assert "".join(f.text for f in answer if isinstance(f, TextDelta)) == "Hi €"
    assert component._llm.requests[-1].aborted

    run = component.run(stream(Prompt((Message("user", "Hi"),))), Context())
    assert isinstance(await anext(run), TextDelta)
    await run.aclose()
    assert component._llm.requests[-1].aborted


async def test_schemas_and_forced_calls_are_held_by_the_grammar(trt: Any, folder: Path) -> None:
    component = await loaded(trt, folder)
    await ask(component, Prompt((Message("user", "Hi"),), schema={"type": "object"}))
    assert component._llm.asked[-1][1].guided_decoding.json == {"type": "object"}
    component._llm.says = '{"city": "Oslo"}<|im_end|>'
    tool = Tool("weather", "", {"type": "object", "properties": {"city": {}}})
    call, done = await ask(
        component, Prompt((Message("user", "Hi"),), tools=(tool,), tool_choice="weather")
    )
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments) == ("weather", '{"city": "Oslo"}')
    assert done.reason == "tool_calls"  # type: ignore[attr-defined]
    assert component._llm.asked[-1][1].guided_decoding.json == tool.parameters
    bare = await loaded(trt, folder, grammar=None)
    with pytest.raises(BadInput, match=r"options\.grammar is off"):
        await ask(bare, Prompt((Message("user", "Hi"),), schema={}))


async def test_a_checkpoint_of_another_quantisation_is_refused(trt: Any, tmp_path: Path) -> None:
    save("llama", tmp_path)
    with pytest.raises(MissingRequirement, match="'none', the options say 'FP8'"):
        await loaded(trt, tmp_path, quantised="FP8")
    said = '{"quantization": {"quant_algo": "FP8"}}'
    (tmp_path / "hf_quant_config.json").write_text(said)
    await loaded(trt, tmp_path, quantised="FP8")


def test_what_is_missing_is_named(trt: Any, folder: Path) -> None:
    lacks = trt.TrtLlm.requirements(Setup("llm", str(folder), {"parallelism": {"tensor": 64}}))
    assert "needs 64 NVIDIA GPUs" in lacks[0]


def test_without_the_package_check_names_the_extra() -> None:
    if registry.ENTRIES["llm/trt"].missing:
        with pytest.raises(MissingRequirement, match=r"motet\[trt\]"):
            registry.component_class("llm/trt")
