"""A small text encoder: few words, two DistilBERT layers, taught by all-MiniLM-L6-v2."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertTokenizer,
    DistilBertConfig,
    DistilBertModel,
)

from ...models import bundled_path
from . import checkpoint

HIDDEN = 256
TOKENS = 20
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_FIRST_WORD_ID = 1996
_COMMON_PIECES = 4500
log = logging.getLogger(__name__)


def teacher_folder() -> Path:
    """The folder of all-MiniLM-L6-v2; only training needs it."""
    return bundled_path("all-minilm-l6-v2")


def teacher_tokenizer() -> Any:
    return cast(Any, AutoTokenizer).from_pretrained(teacher_folder())


def teacher_model() -> Any:
    return cast(Any, AutoModel).from_pretrained(teacher_folder()).eval()


def by_frequency() -> list[str]:
    """The teacher's pieces by their number; from 1996 on, the commoner ones come first."""
    vocabulary: dict[str, int] = teacher_tokenizer().get_vocab()
    return sorted(vocabulary, key=lambda piece: vocabulary[piece])


def build_tokenizer(captions: Sequence[str], folder: Path) -> BertTokenizer:
    """Keep the pieces that `captions` need, the most common ones and all letters; save and load.

    The teacher's vocabulary is sorted by frequency, so the common pieces are its first ones.
    """
    by_id = by_frequency()
    keep = set(by_id[_FIRST_WORD_ID : _FIRST_WORD_ID + _COMMON_PIECES])
    keep |= {piece for piece in by_id if len(piece.removeprefix("##")) == 1 and piece.isascii()}
    rows: list[list[int]] = teacher_tokenizer()(list(captions))["input_ids"]
    keep |= {by_id[number] for ids in rows for number in ids}
    keep -= set(_SPECIAL)
    pieces = [*_SPECIAL, *(piece for piece in by_id if piece in keep)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    tokenizer = BertTokenizer(
        vocab={piece: number for number, piece in enumerate(pieces)},
        do_lower_case=True,
        model_max_length=TOKENS,
    )
    cast(Any, tokenizer).save_pretrained(folder)
    return tokenizer


def build_encoder(tokenizer: BertTokenizer) -> DistilBertModel:
    """The untrained student whose word table is the teacher's, reduced by PCA to HIDDEN numbers."""
    config = DistilBertConfig(
        vocab_size=len(tokenizer),
        dim=HIDDEN,
        n_layers=2,
        n_heads=4,
        hidden_dim=768,
        max_position_embeddings=64,
        dropout=0.0,
        attention_dropout=0.0,
        pad_token_id=0,
    )
    student = DistilBertModel(config)
    number = {piece: index for index, piece in enumerate(by_frequency())}
    pieces: dict[str, int] = tokenizer.get_vocab()
    kept = torch.tensor([number[piece] for piece in sorted(pieces, key=lambda p: pieces[p])])
    table: Tensor = teacher_model().embeddings.word_embeddings.weight.detach()
    centred = table[kept] - table[kept].mean(dim=0)
    axes: Tensor = cast(Any, torch.linalg).svd(centred, full_matrices=False)[2]
    reduced = centred @ axes[:HIDDEN].transpose(0, 1)
    words = student.embeddings.word_embeddings
    with torch.no_grad():
        words.weight.copy_(reduced / reduced.std() * 0.05)
    return student.eval()


@torch.no_grad()
def encode(encoder: DistilBertModel, tokenizer: BertTokenizer, prompts: Sequence[str]) -> Tensor:
    """Token states (N, TOKENS, HIDDEN), zero where there is no token; longer prompts are cut.

    A Wan transformer attends to every text position, so that padding is part of what it learns;
    the length is fixed so that a prompt gives the same states whatever it is batched with.
    """
    batch = tokenizer(
        list(prompts), padding="max_length", truncation=True, max_length=TOKENS, return_tensors="pt"
    )
    ids = cast(Tensor, batch["input_ids"]).to(encoder.device)
    mask = cast(Tensor, batch["attention_mask"]).to(encoder.device)
    states: Tensor = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
    return states * mask[..., None].to(states.dtype)


@torch.no_grad()
def teach(captions: Sequence[str]) -> list[Tensor]:
    """What the teacher says of each caption: (1 + T, 384), the sentence vector, then the tokens."""
    tokenizer, model = teacher_tokenizer(), teacher_model()
    lessons: list[Tensor] = []
    for start in range(0, len(captions), 256):
        batch = tokenizer(
            list(captions[start : start + 256]),
            padding=True,
            truncation=True,
            max_length=TOKENS,
            return_tensors="pt",
        )
        with torch.autocast("cpu", torch.bfloat16):
            states: Tensor = model(**batch).last_hidden_state.float()
        mask: Tensor = batch["attention_mask"][..., None]
        sentence = functional.normalize((states * mask).sum(1, keepdim=True), dim=-1)
        said = torch.cat([sentence, functional.normalize(states, dim=-1)], dim=1).bfloat16()
        counts = map(int, mask[:, :, 0].sum(dim=1))
        lessons.extend(row[: count + 1].clone() for row, count in zip(said, counts, strict=True))
    return lessons


def train_encoder(
    tokenizer: BertTokenizer, captions: Sequence[str], path: Path, steps: int, batch: int = 192
) -> DistilBertModel:
    """Teach the student the teacher's token states, and at [CLS] its sentence vector."""
    student = build_encoder(tokenizer)
    if (state := checkpoint.restore(path)) is not None:
        student.load_state_dict(state["student"])
        return student.eval()
    lessons = teach(captions)
    log.info("the teacher has read %d captions", len(captions))
    rows = cast("list[list[int]]", tokenizer(list(captions), truncation=True)["input_ids"])
    heads = nn.ModuleList([nn.Linear(HIDDEN, 384), nn.Linear(HIDDEN, 384)])
    parameters = [*student.parameters(), *heads.parameters()]
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(
        parameters, 1e-3, betas=(0.9, 0.98), weight_decay=0.01
    )
    student.train()
    for step in range(steps):
        rate = min(1.0, (step + 1) / 100) * 0.5 * (1.02 + math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * rate
        chosen = [int(index) for index in torch.randint(len(rows), (batch,))]
        sentence, tokens = _likeness(
            student, heads, [rows[i] for i in chosen], [lessons[i] for i in chosen]
        )
        optimizer.zero_grad()
        torch.autograd.backward(2 - sentence - tokens)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()  # pyright: ignore[reportUnknownMemberType]
        if step % 100 == 0:
            log.info(
                "text encoder step %d/%d likeness of sentences %.3f, tokens %.3f",
                step,
                steps,
                float(sentence.detach()),
                float(tokens.detach()),
            )
    checkpoint.save(path, {"student": student.state_dict()})
    return student.eval()


def _likeness(
    student: DistilBertModel, heads: nn.ModuleList, rows: list[list[int]], lessons: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """Mean cosine between what student and teacher say, of sentences and of tokens."""
    pad = nn.utils.rnn.pad_sequence
    ids = pad([torch.tensor(row) for row in rows], batch_first=True)
    mask = pad([torch.ones(len(row), dtype=torch.long) for row in rows], batch_first=True)
    taught = pad(lessons, batch_first=True).float()
    with torch.autocast("cpu", torch.bfloat16):
        states: Tensor = student(input_ids=ids, attention_mask=mask).last_hidden_state
        sentence: Tensor = heads[0](states[:, 0])
        tokens: Tensor = heads[1](states)
    alike = functional.cosine_similarity(tokens.float(), taught[:, 1:], dim=-1)
    return (
        functional.cosine_similarity(sentence.float(), taught[:, 0], dim=-1).mean(),
        (alike * mask).sum() / mask.sum(),
    )
