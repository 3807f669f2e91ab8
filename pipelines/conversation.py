"""The conversation: its items in order, and how much of each reply was heard."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from ..components.errors import BadInput
from ..components.frames import CallRequest, ImagePart, Spoken
from .tally import Tally

Role = Literal["system", "user", "assistant"]
Status = Literal["in_progress", "completed", "incomplete"]

# Scripts without spaces are cut between characters, all others between words.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\s\u3040-\u30ff\u3400-\u9fff]+")


@dataclass(slots=True)
class Item:
    """One entry: a message, a tool call (`call`), or a tool's output (`answers` names the call).

    `text` is all that was written. A spoken reply also keeps its `slices` with their times on the
    reply's audio, the `sent_ms` that went out, and, once it was cut off, `cut_ms`: how much of it
    was heard. `pending` is True while a user's speech has no transcript yet.
    """

    id: str
    role: Role = "user"
    text: str = ""
    images: tuple[ImagePart, ...] = ()
    call: CallRequest | None = None
    answers: str | None = None
    audio: bool = False
    pending: bool = False
    status: Status = "completed"
    slices: list[Spoken] = field(default_factory=list[Spoken])
    sent_ms: float = 0.0
    cut_ms: float | None = None
    truncated: bool = False

    @property
    def heard(self) -> str:
        """The text that belongs into the history: all of it, or what was heard before the cut."""
        return self.text if self.cut_ms is None else heard_text(self.slices, self.cut_ms)

    @property
    def size_bytes(self) -> int:
        """About what the item takes: its text, its pictures, the arguments of a call."""
        call = len(self.call.name) + len(self.call.arguments) if self.call is not None else 0
        return len(self.text) + call + sum(len(image.data) for image in self.images)

    @property
    def growing(self) -> bool:
        """Whether text is still to come: a reply that is being written, a pending transcript."""
        return self.pending or self.status == "in_progress"

    def cut(self, heard_ms: float) -> None:
        """Keep what was heard until `heard_ms`, at most what was sent."""
        self.cut_ms = max(0.0, min(heard_ms, self.sent_ms))


def heard_text(slices: list[Spoken], heard_ms: float) -> str:
    """The words whose audio ended by `heard_ms`; inside a slice, time is shared out by length."""
    parts: list[str] = []
    for piece in slices:
        if heard_ms > 0 and piece.end_ms <= heard_ms + 1e-6:
            parts.append(piece.text)
        elif piece.start_ms < heard_ms:
            share = (heard_ms - piece.start_ms) / (piece.end_ms - piece.start_ms)
            parts.append(_leading_words(piece.text, share))
            break
        else:
            break
    return "".join(parts).rstrip()


def _leading_words(text: str, share: float) -> str:
    limit = share * len(text.rstrip()) + 1e-6
    end = 0
    for word in _WORD.finditer(text):
        if word.end() > limit:
            break
        end = word.end()
    return text[:end]


class Conversation:
    """Items in order, at most `max_items` of them and `max_bytes` of text and pictures.

    An item that makes it too long drops the oldest items, a tool call together with its output;
    items with the role "system" stay, and so does the newest (an output with its tool call).
    """

    def __init__(self, max_items: int = 512, max_bytes: int = 32 << 20) -> None:
        self._max_items = max_items
        self._max_bytes = max_bytes
        # Unlike a dict, it finds its ends at once where many have been taken off them.
        self._items: OrderedDict[str, Item] = OrderedDict()
        self._tally = Tally()

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._items

    @property
    def last_id(self) -> str | None:
        """The id of the newest item, None if there is none."""
        return next(reversed(self._items), None)

    def get(self, item_id: str) -> Item | None:
        """The item of that id, None if there is none."""
        return self._items.get(item_id)

    def before(self, item_id: str) -> str | None:
        """The id of the item before this one, None for the first. Asked about the newest mostly."""
        ids = reversed(self._items)
        return next(ids, None) if item_id in ids else None

    def call(self, call_id: str) -> Item | None:
        """The tool call of that id."""
        return next((i for i in self if i.call is not None and i.call.call_id == call_id), None)

    def add(self, item: Item, after: str | None = None) -> list[str]:
        """Append the item, or place it behind `after` ("root": in front). The ids dropped for it.

        Raises:
            BadInput: its id is taken, `after` is unknown, or system items, which stay, have left
                no room for one more.
        """
        if item.id in self._items:
            raise BadInput(f"Item with id {item.id!r} already exists.", param="item.id")
        if after is not None and after != "root" and after not in self._items:
            raise BadInput(f"There is no item {after!r} to place it behind.", param="after")
        if item.role == "system":
            self._check_room(item)
        self._tally.add(item)
        if after is None or after == self.last_id:
            self._items[item.id] = item
            return self._drop_oldest(item)
        order = list(self._items.values())
        place = 0 if after == "root" else [i.id for i in order].index(after) + 1
        order.insert(place, item)
        self._items = OrderedDict((i.id, i) for i in order)
        return self._drop_oldest(item)

    def remove(self, item_id: str) -> Item | None:
        """Take the item out; None if it isn't there."""
        item = self._items.pop(item_id, None)
        if item is not None:
            self._tally.remove(item)
        return item

    def _check_room(self, item: Item) -> None:
        tally = self._tally
        fits = tally.system_bytes + item.size_bytes <= self._max_bytes
        if tally.systems < self._max_items and fits:
            return
        raise BadInput(
            f"{tally.systems} system items of {tally.system_bytes} bytes stay in the conversation, "
            f"which holds at most {self._max_items} items and {self._max_bytes} bytes. "
            "Delete some.",
            param="item",
        )

    def _drop_oldest(self, newest: Item) -> list[str]:
        dropped: list[str] = []
        kept = {newest.id}
        if newest.answers is not None and (call := self.call(newest.answers)) is not None:
            kept.add(call.id)
        while self._over():
            item = next((i for i in self if i.role != "system" and i.id not in kept), None)
            if item is None:
                break
            for mate in self._pair(item):
                if mate.id not in kept:
                    self.remove(mate.id)
                    dropped.append(mate.id)
        return dropped

    def _over(self) -> bool:
        return len(self._items) > self._max_items or self._tally.size_bytes > self._max_bytes

    def _pair(self, item: Item) -> list[Item]:
        call_id = item.call.call_id if item.call is not None else item.answers
        if call_id is None:
            return [item]
        return [i for i in self if i.answers == call_id or (i.call and i.call.call_id == call_id)]
