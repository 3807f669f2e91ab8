"""The keys and values of all requests that a model answers at once: one row each, side by side.

Rows 0 to n-1 are in use, so that a step reads them in place. Requests of any length share a step:
each writes at its own end, and a mask hides what lies behind it.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache

GROWTH = 256


class SlotLayer(CacheLayerMixin):
    """One layer's keys and values, (slots, heads, room, dim); `update` adds one token per row."""

    is_sliding = False

    def __init__(self, owner: SlotCache) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._owner = owner

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Make room as the first row needs it; shapes are (1, heads, length, dim)."""
        slots, room = self._owner.slots, self._owner.room
        self.keys: Any = key_states.new_zeros(slots, key_states.shape[1], room, key_states.shape[3])
        self.values: Any = value_states.new_zeros(
            slots, value_states.shape[1], room, value_states.shape[3]
        )
        self.is_initialized = True

    def put(self, row: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Copy a whole prompt's keys and values into a row."""
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        self._grow()
        length = keys.shape[2]
        self.keys[row, :, :length] = keys[0]
        self.values[row, :, :length] = values[0]

    def _grow(self) -> None:
        more = self._owner.room - self.keys.shape[2]
        if more > 0:
            self.keys = torch.nn.functional.pad(self.keys, (0, 0, 0, more))
            self.values = torch.nn.functional.pad(self.values, (0, 0, 0, more))

    def move(self, source: int, target: int) -> None:
        """Copy a row over another."""
        self.keys[target] = self.keys[source]
        self.values[target] = self.values[source]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write each row's newest token, (rows, heads, 1, dim), and give back all that is used."""
        del args, kwargs
        self._grow()
        count, ends = len(self._owner.ends), self._owner.ends
        rows = torch.arange(count, device=ends.device)
        self.keys[rows, :, ends] = key_states[:, :, 0]
        self.values[rows, :, ends] = value_states[:, :, 0]
        used = self._owner.longest + 1
        return self.keys[:count, :, :used], self.values[:count, :, :used]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset for masks; ours is given, so this only has to be consistent."""
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        """The longest row."""
        return self._owner.longest

    def get_max_length(self) -> int:
        """No bound of its own."""
        return -1


class SlotCache(Cache):
    """All layers; `ends` (rows,) says where each row in use ends."""

    def __init__(self, layers: int, slots: int, device: torch.device) -> None:
        self.slots = slots
        self.room = GROWTH
        self.longest = 0
        self.ends = torch.zeros(0, dtype=torch.long, device=device)
        self._device = device
        super().__init__(layers=[SlotLayer(self) for _ in range(layers)])

    def prepare(self, lengths: list[int]) -> torch.Tensor:
        """Set where the rows end before a step; its mask, (rows, 1, 1, used), True where seen."""
        self.longest = max(lengths)
        self.ends = torch.tensor(lengths, device=self._device)
        while self.room <= self.longest:
            self.room *= 2
        places = torch.arange(self.longest + 1, device=self._device)
        return (places[None, :] <= self.ends[:, None])[:, None, None, :]

    def join(self, row: int, prompt: DynamicCache) -> None:
        """Copy a finished prompt into a row."""
        while self.room <= prompt.get_seq_length():
            self.room *= 2
        for mine, theirs in zip(self.layers, prompt.layers, strict=True):
            held: Any = theirs
            mine.put(row, held.keys, held.values)  # pyright: ignore

    def move(self, source: int, target: int) -> None:
        """Copy a row over another."""
        for layer in self.layers:
            layer.move(source, target)  # pyright: ignore
