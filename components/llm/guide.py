"""Answers held to a JSON schema: at every place only the tokens that can still fit (llguidance)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import llguidance
import llguidance.hf
import llguidance.numpy as masks
import torch

from ..errors import BadInput


class Guides:
    """Makes guides for one model; `width` is the number of its logits."""

    def __init__(self, tokenizer: Any, width: int) -> None:
        made: Any = llguidance.hf.from_tokenizer(tokenizer, n_vocab=width)
        self._tokenizer = made
        self._width = width

    def guide(self, schema: Mapping[str, Any], *, where: str) -> Guide:
        """A guide for one answer; an empty schema stands for any object.

        Raises:
            BadInput: the schema can't be held to.
        """
        kind: Any = llguidance.LLMatcher
        # Compact: where white space is free, small models write it without end.
        grammar = kind.grammar_from_json_schema(
            json.dumps(dict(schema) or {"type": "object"}),
            defaults={"whitespace_flexible": False},
        )
        matcher = kind(self._tokenizer, grammar)
        if matcher.is_error():
            raise BadInput(
                f"the schema can't be held to: {str(matcher.get_error())[:200]}",
                where=where,
                param="response_format",
            )
        return Guide(matcher, self._width)


class Guide:
    """The state of one answer."""

    def __init__(self, matcher: Any, width: int) -> None:
        self._matcher = matcher
        self._mask = masks.allocate_token_bitmask(1, width)

    def narrow(self, logits: torch.Tensor) -> torch.Tensor:
        """The logits (vocab,) with all that doesn't fit at minus infinity."""
        # By numpy: llguidance's own way for torch compiles a kernel at the first answer, which
        # takes a minute on a busy machine, and everyone else's answers wait for it.
        masks.fill_next_token_bitmask(self._matcher, self._mask)
        narrowed = logits.cpu().numpy().copy()
        masks.apply_token_bitmask_inplace(narrowed, self._mask)
        return torch.as_tensor(narrowed)

    def take(self, token: int) -> None:
        """A token was chosen."""
        self._matcher.consume_token(token)
