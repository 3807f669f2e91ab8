"""The prefix cache of llm/hf: the same logits with and without, for texts and for pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tinyllm import answered
from tinymodels import IMAGE, save
from transformers.cache_utils import DynamicCache

from motet.components.base import Resources, Setup
from motet.components.frames import Message, Prompt
from motet.components.llm.hf import HfLlm
from motet.components.llm.hfmodel import HfModel
from motet.components.llm.hfprefix import PrefixCache, layers_of, marks_of
from motet.components.vlm import Picture

pytestmark = pytest.mark.timeout(60)

STRETCH = 16


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {kind: tmp_path_factory.mktemp(kind) for kind in ("llama", "qwen2_5_vl", "smolvlm")}
    for kind, folder in found.items():
        save(kind, folder)
    return found


def model_of(folder: Path) -> HfModel:
    return HfModel(folder, device="cpu", dtype="float32", threads=1, context_tokens=512)


def picture(seed: int) -> Picture:
    rows = np.random.default_rng(seed).standard_normal((4, 64)).astype(np.float32)
    return Picture(rows, (1, 4, 4))


def logits(
    model: HfModel, ids: list[int], seen: tuple[Picture, ...], cache: DynamicCache, done: int
) -> torch.Tensor:
    """Those of the last place, read in stretches as the loop does."""
    embedded = model.embed(ids, seen)
    positions, _ = model.positions(ids, seen)
    found = torch.empty(0)
    while done < len(ids):
        part = slice(done, done + STRETCH)
        found = model.read(embedded[:, part], positions[..., part], cache)
        done = min(done + STRETCH, len(ids))
    return found


@pytest.mark.parametrize("kind", ["llama", "qwen2_5_vl", "smolvlm"])
@pytest.mark.parametrize("block", [STRETCH, 5])
def test_logits_are_equal_with_and_without(folders: dict[str, Path], kind: str, block: int) -> None:
    model = model_of(folders[kind])
    seen = () if kind == "llama" else (picture(1),)
    head = [40, 41, *([IMAGE] * 4 if seen else [50] * 4), *range(60, 92)]
    first, second = [*head, 100, 101, 102], [*head, *range(110, 130)]
    kept = PrefixCache(1 << 24, block)
    cache = DynamicCache()
    logits(model, first, seen, cache, 0)
    kept.keep(marks_of(first, seen, IMAGE), None, layers_of(cache, 0))
    known, warm = kept.find(marks_of(second, seen, IMAGE), None)
    assert known == len(head) // block * block
    cold = logits(model, second, seen, DynamicCache(), 0)
    again = logits(model, second, seen, warm, known)
    if block == STRETCH:
        assert torch.equal(again, cold), "cut where the stretches are, bit for bit"
    assert float((again - cold).abs().max()) < 1e-5


def test_another_picture_adapter_or_beginning_is_not_known(folders: dict[str, Path]) -> None:
    model = model_of(folders["qwen2_5_vl"])
    ids = [40, 41, *([IMAGE] * 4), *range(60, 70)]
    kept, cache = PrefixCache(1 << 24, 4), DynamicCache()
    logits(model, ids, (picture(1),), cache, 0)
    kept.keep(marks_of(ids, (picture(1),), IMAGE), "legal", layers_of(cache, 0))

    def known(seen: Picture, adapter: str | None, ids: list[int] = ids) -> int:
        return kept.find(marks_of(ids, (seen,), IMAGE), adapter)[0]

    assert known(picture(1), "legal") == 12
    assert known(picture(2), "legal") == 0
    assert known(picture(1), None) == 0
    assert known(picture(1), "legal", [39, *ids[1:]]) == 0
    assert known(picture(1), "legal", [*ids[:-1], 5]) == 12
    other = Picture(picture(1).rows, (1, 2, 8))
    assert known(other, "legal") == 0, "the same rows in another shape have other positions"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), max_size=30), st.integers(0, 9))
def test_it_never_holds_more_than_its_bound_and_ends_go_first(
    asked: list[tuple[int, int]], blocks: int
) -> None:
    size = 2 * 2 * 4 * 3 * 4  # keys and values of 2 heads, 4 tokens, 3 numbers of 4 bytes
    kept = PrefixCache(blocks * size, 4)
    for start, length in asked:
        marks = np.arange(start * 1000, start * 1000 + length)
        layer = torch.zeros(2, length, 3)
        kept.keep(marks, None, [(layer, layer)])
        assert kept.size_bytes <= blocks * size
        known, cache = kept.find(np.append(marks, -1), None)
        assert known == min(length // 4, blocks) * 4, "the newest is there, from its beginning"
        assert cache.get_seq_length() == known


def prompt(*texts: str, **settings: Any) -> Prompt:
    roles = ("system", "user", "assistant", "user")
    messages = tuple(Message(role, text) for role, text in zip(roles, texts, strict=False))  # type: ignore[arg-type]
    return Prompt(messages, **{"max_tokens": 24} | settings)


async def test_turns_and_callers_find_what_was_read_before(folders: dict[str, Path]) -> None:
    system = "You are careful and brief. " * 3
    answers: dict[int, list[str]] = {}
    cached: list[int] = []
    for mib in (0, 64):
        options = {"context_tokens": 512, "temperature": 0.0, "prompt_stretch": 16}
        options |= {"prefix_block": 8, "prefix_cache_mib": mib}
        llm = HfLlm(Setup("llm", str(folders["llama"]), options, Resources(), 4))
        await llm.load()
        try:
            one, first = await answered(llm, prompt(system, "What is one?"))
            other, second = await answered(llm, prompt(system, "And two?"))
            turn, third = await answered(llm, prompt(system, "What is one?", "The first.", "Why?"))
        finally:
            await llm.close()
        answers[mib] = [one, other, turn]
        cached = [done.usage.cached_tokens for done in (first, second, third)]
        if mib == 0:
            assert cached == [0, 0, 0]
    assert answers[0] == answers[64]
    assert cached[0] == 0
    assert cached[1] >= len(system) // 8 * 8
    assert cached[2] > cached[1]


async def test_an_answer_counts_for_the_turn_after_it(folders: dict[str, Path]) -> None:
    """The model's own words come back as the history: with their keys and values."""
    options = {"context_tokens": 512, "temperature": 0.0, "prefix_block": 8}
    llm = HfLlm(Setup("llm", str(folders["llama"]), options, Resources(), 4))
    await llm.load()
    try:
        said, first = await answered(llm, prompt("s", "abc", max_tokens=60))
        _, second = await answered(llm, prompt("s", "abc", said, "more"))
    finally:
        await llm.close()
    whole = first.usage.input_tokens + len(said.encode())
    assert second.usage.cached_tokens >= first.usage.input_tokens // 8 * 8
    if len(said.encode()) == first.usage.output_tokens:
        assert second.usage.cached_tokens >= (whole - 1) // 8 * 8
