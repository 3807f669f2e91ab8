"""LoRA adapters of `llm/hf`: each row of a step is answered by its own, or by the plain model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftConfig, get_peft_model
from peft.tuners.lora import LoraLayer

from ..errors import MissingRequirement

PLAIN = "__base__"
"""peft's name for no adapter."""


class Adapters:
    """Adapters loaded beside one model, whose layers get them built in.

    `folders` are those that peft writes (adapter_config.json, adapter_model.safetensors).

    Raises:
        MissingRequirement: one isn't a LoRA of this model, or of a kind that can't share a batch.
    """

    def __init__(self, model: Any, folders: Mapping[str, Path]) -> None:
        # Layers are named by adapter inside, where a name may not have a dot.
        self._names = {name: f"adapter{n}" for n, name in enumerate(folders)}
        self._peft: Any = None
        for name, folder in folders.items():
            try:
                self._add(model, self._names[name], folder)
            except (ValueError, RuntimeError, TypeError, OSError, KeyError) as error:
                raise MissingRequirement(
                    f"{folder}: {str(error)[:300]}", where=f"options.adapters.{name}"
                ) from error
        self._peft.eval()

    def _add(self, model: Any, name: str, folder: Path) -> None:
        configs: Any = PeftConfig
        wrap: Any = get_peft_model
        config: Any = configs.from_pretrained(str(folder))
        check(config)
        peft: Any = self._peft or wrap(model, config, adapter_name=name)
        self._peft = peft
        told: Any = peft.load_adapter(str(folder), adapter_name=name)
        if told.unexpected_keys:
            raise ValueError(f"weights for what this model hasn't: {told.unexpected_keys[0]}")
        if isinstance(model.get_input_embeddings(), LoraLayer):
            raise ValueError("adapted embeddings are not possible")

    @torch.inference_mode()
    def try_all(self, width: int, dtype: torch.dtype, device: torch.device) -> None:
        """One token through each, so that what can't run is known when it is loaded.

        Raises:
            MissingRequirement: an adapter is of a kind that can't share a batch.
        """
        for name in self._names:
            try:
                self([name], inputs_embeds=torch.zeros(1, 1, width, dtype=dtype, device=device))
            except (ValueError, TypeError) as error:
                raise MissingRequirement(
                    str(error)[:300], where=f"options.adapters.{name}"
                ) from error

    def __call__(self, rows: Sequence[str | None], **inputs: Any) -> Any:
        """The model's output; `rows` says for each row of the batch which adapter it has."""
        names = [PLAIN if one is None else self._names[one] for one in rows]
        return self._peft(adapter_names=names, **inputs)


def check(config: Any) -> None:
    """Raises `ValueError` for what can't be told apart by rows."""
    if not isinstance(config, LoraConfig):
        raise ValueError(f"a {config.peft_type} adapter; LoRA is possible")
    for name in ("modules_to_save", "trainable_token_indices", "alora_invocation_tokens"):
        if getattr(config, name, None):
            raise ValueError(f"{name} is set; only low-rank weights are possible")
