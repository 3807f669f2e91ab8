"""llm/hf on a tiny random model, and what transformers' own `generate` makes of a prompt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import torch
from running import ask, text_of

from motet.components.base import Resources, Setup
from motet.components.frames import Completed, Message, Prompt
from motet.components.llm.detokenise import Detokeniser
from motet.components.llm.hf import HfLlm
from motet.components.llm.hfprompt import PromptWriter


@asynccontextmanager
async def loaded(folder: Path, **options: Any) -> AsyncIterator[HfLlm]:
    settings = {"context_tokens": 256, "temperature": 0.0, "prompt_stretch": 16, **options}
    llm = HfLlm(Setup("llm", str(folder), settings, Resources(), 4))
    await llm.load()
    try:
        yield llm
    finally:
        await llm.close()


def prompt(text: str, **settings: Any) -> Prompt:
    return Prompt((Message("user", text),), **{"max_tokens": 24} | settings)


async def answered(llm: HfLlm, asked: Prompt) -> tuple[str, Completed]:
    """The text of an answer, and its end."""
    frames = await ask(llm, asked)
    done = frames[-1]
    assert isinstance(done, Completed)
    return text_of(frames), done


def writer_of(folder: Path) -> PromptWriter:
    return PromptWriter(folder, family=None, image_token=-1, template=None)


def alone(folder: Path, whole: Any, asked: Prompt) -> str:
    """The prompt answered by `generate`, with no other request beside it."""
    writer = writer_of(folder)
    ids = writer.write(asked, ())
    made = whole.generate(
        input_ids=torch.tensor([ids]),
        attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        max_new_tokens=asked.max_tokens,
        do_sample=False,
    )
    text = Detokeniser(writer.decode)
    return "".join([*map(text.push, made[0, len(ids) :].tolist()), text.finish()])
