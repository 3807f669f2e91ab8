"""How much the items of a conversation take, kept as they come and go."""

from __future__ import annotations

from typing import Protocol


class Counted(Protocol):
    """What is counted of an item. Its size may change only while it is `growing`."""

    id: str

    @property
    def role(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def growing(self) -> bool: ...


class Tally:
    """Sizes of items: only those that still grow are looked at again, so that a long conversation
    isn't added up anew for each item."""

    def __init__(self) -> None:
        self._growing: dict[str, Counted] = {}
        self._sizes: dict[str, int] = {}
        self._settled_bytes = 0
        self.systems = 0
        self.system_bytes = 0

    def add(self, item: Counted) -> None:
        """Count an item."""
        size_bytes = item.size_bytes
        self._sizes[item.id] = size_bytes
        if item.role == "system":
            self.systems += 1
            self.system_bytes += size_bytes
        self._growing[item.id] = item

    def remove(self, item: Counted) -> None:
        """Count an item no more; it has been added."""
        size_bytes = self._sizes.pop(item.id)
        if item.role == "system":
            self.systems -= 1
            self.system_bytes -= size_bytes
        if self._growing.pop(item.id, None) is None:
            self._settled_bytes -= size_bytes

    @property
    def size_bytes(self) -> int:
        """What all take now."""
        self._settle()
        return self._settled_bytes + sum(self._sizes[item_id] for item_id in self._growing)

    def _settle(self) -> None:
        for item in list(self._growing.values()):
            size_bytes = item.size_bytes
            if item.role == "system":
                self.system_bytes += size_bytes - self._sizes[item.id]
            self._sizes[item.id] = size_bytes
            if not item.growing:
                del self._growing[item.id]
                self._settled_bytes += size_bytes
