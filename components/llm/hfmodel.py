"""A language model on transformers: prompts with pictures in, logits out, many rows at a time.

Of a vision-language model only the language side is loaded; pictures come as their rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.cache_utils import DynamicCache

from ..errors import BadInput, MissingRequirement
from ..loading import quiet_loading
from ..vlm import Family, Picture, family_of
from .hfadapters import Adapters
from .hfslots import SlotCache

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class HfModel:
    """One model in memory. Not thread-safe: give it a thread of its own.

    Raises:
        MissingRequirement: it isn't a model of a known kind, or its attention isn't full
            over `context_tokens`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        device: str,
        dtype: str,
        threads: int,
        context_tokens: int,
        adapters: Mapping[str, Path] | None = None,
    ) -> None:
        configs: Any = AutoConfig
        config = configs.from_pretrained(str(folder), local_files_only=True)
        self.model_type = str(config.model_type)
        self.family: Family | None = None
        if getattr(config, "vision_config", None) is not None:
            self.family = family_of(self.model_type)
        text = config.get_text_config(decoder=True)
        check_attention(text, context_tokens)
        self.device = torch.device(device)
        self.width = int(text.hidden_size)
        self.layers = int(text.num_hidden_layers)
        self.vocabulary = int(text.vocab_size)
        self.image_token = image_token_of(config)
        self._threads = threads
        self._model: Any = load(folder, config, self.family, DTYPES[dtype]).to(self.device)
        self._embed: Any = self._model.get_input_embeddings()
        named = inspect.signature(self._model.forward).parameters
        self._cache_name = "cache" if "cache" in named else "past_key_values"
        self._adapters = Adapters(self._model, adapters) if adapters else None
        if self._adapters is not None:
            self._model.to(self.device)
            self._adapters.try_all(self.width, DTYPES[dtype], self.device)

    def use_threads(self) -> None:
        """Bound the thread pool; called from the thread that computes."""
        torch.set_num_threads(self._threads)

    @torch.inference_mode()
    def embed(self, ids: Sequence[int], pictures: Sequence[Picture]) -> torch.Tensor:
        """Embeddings (1, length, width) of a prompt, the pictures' rows in their places.

        Raises:
            BadInput: there are more or fewer placeholders than rows.
        """
        tokens = torch.tensor([list(ids)], device=self.device)
        embedded = self._embed(tokens)
        places = tokens == self.image_token
        count = sum(picture.tokens for picture in pictures)
        if int(places.sum()) != count:
            raise BadInput(f"{int(places.sum())} places for {count} rows of pictures", where="llm")
        if not count:
            return embedded
        rows = torch.cat([rows_of(picture, self.device) for picture in pictures])
        mask = places[..., None].expand_as(embedded)
        return embedded.masked_scatter(mask, rows.to(embedded.dtype))

    def positions(
        self, ids: Sequence[int], pictures: Sequence[Picture]
    ) -> tuple[torch.Tensor, int]:
        """Position ids of a prompt, (1, length) or (3, 1, length), and what later tokens' positions
        are ahead of their places by (below 0 where pictures take fewer positions than rows)."""
        tokens = torch.tensor([list(ids)], device=self.device)
        if self.family != "qwen":
            return torch.arange(len(ids), device=self.device)[None], 0
        if not pictures:
            return torch.arange(len(ids), device=self.device).expand(3, 1, -1), 0
        grid = torch.tensor([picture.grid for picture in pictures], device=self.device)
        found, ahead = self._model.model.get_rope_index(
            input_ids=tokens,
            mm_token_type_ids=(tokens == self.image_token).int(),
            image_grid_thw=grid,
        )
        return found, int(ahead[0])

    @torch.inference_mode()
    def read(
        self,
        embedded: torch.Tensor,
        positions: torch.Tensor,
        cache: DynamicCache,
        adapter: str | None = None,
    ) -> torch.Tensor:
        """Read a stretch of one prompt into its cache; float32 logits of the last place (vocab,).

        The stretch must begin where the cache ends.
        """
        return self._forward(embedded, positions, cache, None, [adapter])[0, -1].float()

    @torch.inference_mode()
    def step(
        self,
        tokens: list[int],
        lengths: list[int],
        ahead: list[int],
        cache: SlotCache,
        adapters: Sequence[str | None],
    ) -> torch.Tensor:
        """One token more for every row, by its own adapter: float32 logits (rows, vocab)."""
        mask = cache.prepare(lengths)
        embedded = self._embed(torch.tensor(tokens, device=self.device)[:, None])
        places = cache.ends + torch.tensor(ahead, device=self.device)
        positions = places[:, None]
        if self.family == "qwen":
            positions = positions.expand(3, -1, -1)
        return self._forward(embedded, positions, cache, mask, adapters)[:, -1].float()

    def _forward(
        self,
        embedded: torch.Tensor,
        positions: torch.Tensor,
        cache: Any,
        mask: Any,
        adapters: Sequence[str | None],
    ) -> torch.Tensor:
        inputs: dict[str, Any] = {
            "inputs_embeds": embedded,
            "position_ids": positions,
            "attention_mask": mask,
            "use_cache": True,
            "logits_to_keep": 1,
            self._cache_name: cache,
        }
        if self._adapters is not None:
            return self._adapters(adapters, **inputs).logits
        return self._model(**inputs).logits

    def slots(self, count: int) -> SlotCache:
        """An empty cache of `count` rows."""
        return SlotCache(self.layers, count, self.device)


def load(folder: Path, config: Any, family: Family | None, dtype: torch.dtype) -> Any:
    """The model, or of a vision-language model its language side."""
    kind: Any = AutoModelForImageTextToText if family else AutoModelForCausalLM
    if family:
        name = "depth" if hasattr(config.vision_config, "depth") else "num_hidden_layers"
        setattr(config.vision_config, name, 0)
    with quiet_loading():
        model = kind.from_pretrained(
            str(folder),
            config=config,
            local_files_only=True,
            dtype=dtype,
            use_safetensors=True,
            attn_implementation="sdpa",
        )
    for part in ("visual", "vision_model", "vision_tower", "connector", "multi_modal_projector"):
        if family and part in model.model._modules:
            setattr(model.model, part, None)
    return model.eval()


def check_attention(text: Any, context_tokens: int) -> None:
    """Refuse what a row of keys and values with a plain mask can't stand for."""
    kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
    window = int(getattr(text, "sliding_window", None) or 0)
    slides = "sliding_attention" in kinds or (window and not getattr(text, "layer_types", None))
    if kinds - {"full_attention", "sliding_attention"}:
        raise MissingRequirement(
            f"layers of kind {', '.join(sorted(kinds))} are not possible; full attention is",
            where="model",
        )
    if slides and getattr(text, "use_sliding_window", True) and window < context_tokens:
        raise MissingRequirement(
            f"this model's attention slides over {window} tokens: set context_tokens to at most"
            " that",
            where="options.context_tokens",
        )


def image_token_of(config: Any) -> int:
    """The placeholder's id; -1 for a model without pictures."""
    found = getattr(config, "image_token_id", None)
    found = getattr(config, "image_token_index", None) if found is None else found
    return -1 if found is None else int(found)


def rows_of(picture: Picture, device: torch.device) -> torch.Tensor:
    """A picture's rows as a tensor of their own type."""
    rows = np.array(picture.rows)
    if picture.dtype == "bfloat16":
        return torch.as_tensor(rows.view(np.int16)).view(torch.bfloat16).to(device)
    return torch.as_tensor(rows).to(device)
