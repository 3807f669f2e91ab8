"""LoRA in llm/hf: rows of one step by different adapters, each as peft alone answers."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from tinyllm import alone, answered
from tinymodels import save

from motet.components.base import Resources, Setup
from motet.components.errors import BadInput, MissingRequirement
from motet.components.frames import Message, Prompt
from motet.components.llm.hf import HfLlm

pytestmark = pytest.mark.timeout(60)

PLAIN = None


def adapter(base: Any, folder: Path, seed: int, **settings: Any) -> Any:
    """A random LoRA saved as peft does, and the model with it and no other."""
    settings = {"target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"} | settings
    made: Any = get_peft_model(copy.deepcopy(base), LoraConfig(r=4, **settings))
    torch.manual_seed(seed)
    for name, part in made.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(part, std=0.3)
    made.save_pretrained(str(folder), save_embedding_layers=False)
    again: Any = PeftModel.from_pretrained(copy.deepcopy(base), str(folder))
    return again.eval()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str | None, Any]]:
    folder = tmp_path_factory.mktemp("adapted")
    base = save("llama", folder / "base")
    found: dict[str | None, Any] = {PLAIN: base}
    found["legal"] = adapter(base, folder / "legal", 1)
    found["dr.who"] = adapter(
        base, folder / "dr.who", 2, target_modules="all-linear", lora_alpha=16, use_rslora=True
    )
    return folder, found


def llm_of(folder: Path, *names: str, apart: Path | None = None, **options: Any) -> HfLlm:
    adapters = {name: str((apart or folder) / name) for name in names}
    settings = {"context_tokens": 256, "temperature": 0.0, "adapters": adapters, **options}
    return HfLlm(Setup("llm", str(folder / "base"), settings, Resources(), 4))


def prompt(text: str, adapter: str | None) -> Prompt:
    return Prompt((Message("user", text),), max_tokens=20, adapter=adapter)


async def test_rows_of_a_step_have_their_own_adapters(
    models: tuple[Path, dict[str | None, Any]],
) -> None:
    folder, whole = models
    asked = [prompt(text, name) for text in ("one", "a longer one") for name in whole]
    wanted = [alone(folder / "base", whole[one.adapter], one) for one in asked]
    assert len(set(wanted[:3])) == 3, "the adapters say different things"
    llm = llm_of(folder, "legal", "dr.who")
    await llm.load()
    try:
        answers = await asyncio.gather(*(answered(llm, one) for one in asked))
        assert llm.loop is not None
        steps = llm.loop.steps
        with pytest.raises(BadInput, match="did you mean 'legal'"):
            await answered(llm, prompt("one", "legall"))
    finally:
        await llm.close()
    assert [text for text, _ in answers] == wanted
    assert steps < sum(done.usage.output_tokens for _, done in answers), "they shared steps"


async def test_what_one_adapter_has_read_is_not_anothers(
    models: tuple[Path, dict[str | None, Any]],
) -> None:
    folder, whole = models
    llm = llm_of(folder, "legal", prefix_block=4)
    await llm.load()
    try:
        first = await answered(llm, prompt("the same words", "legal"))
        plain = await answered(llm, prompt("the same words", PLAIN))
        again = await answered(llm, prompt("the same words", "legal"))
    finally:
        await llm.close()
    assert plain[1].usage.cached_tokens == 0
    assert again[1].usage.cached_tokens > 0
    assert plain[0] == alone(folder / "base", whole[PLAIN], prompt("the same words", PLAIN))
    legal = alone(folder / "base", whole["legal"], prompt("the same words", "legal"))
    assert first[0] == again[0] == legal


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"use_dora": True}, "DoRA"),
        ({"target_modules": ["embed_tokens"]}, "embeddings are not possible"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save is set"),
    ],
)
async def test_adapters_that_cannot_share_a_batch_are_refused_when_loaded(
    models: tuple[Path, dict[str | None, Any]],
    tmp_path: Path,
    settings: dict[str, Any],
    words: str,
) -> None:
    folder, whole = models
    adapter(whole[PLAIN], tmp_path / "odd", 3, **settings)
    llm = llm_of(folder, "odd", apart=tmp_path)
    with pytest.raises(MissingRequirement, match=words) as caught:
        await llm.load()
    assert caught.value.where == "options.adapters.odd"
    await llm.close()


def test_an_adapter_that_is_not_there_is_named(tmp_path: Path) -> None:
    setup = Setup("llm", "all-minilm-l6-v2", {"adapters": {"legal": str(tmp_path / "nowhere")}})
    assert any("nowhere" in lack for lack in HfLlm.requirements(setup))
