"""What clients do to the conversation: create, delete, retrieve and truncate items."""

from __future__ import annotations

from ...pipelines.conversation import Item
from .events import ItemCreate, ItemDelete, ItemReference, ItemRetrieve, ItemTruncate, ResponsePatch
from .faults import ClientError
from .inputbuffer import InputBuffer
from .items import read_item, write_item
from .listening import add_item
from .state import State

# Clients take the time of playback from a clock, which runs ahead of the audio by some latency.
TRUNCATE_SLACK_MS = 1000.0


class ItemRequests:
    """Each method carries out one client event.

    Raises:
        ClientError: with the code that clients know, where it can't be done.
    """

    def __init__(self, state: State, buffer: InputBuffer) -> None:
        self._state = state
        self._buffer = buffer

    def create(self, event: ItemCreate, now_s: float) -> None:
        """Add an item; audio inside it is transcribed."""
        state = self._state
        item, audio = read_item(event.item, state.outbox.new_id)
        if item.id in state.conversation:
            raise ClientError(
                "item_create_duplicate_item_id",
                f"Error adding item: an item with id {item.id!r} already exists.",
                "item.id",
            )
        after = event.previous_item_id
        if after is not None and after != "root" and after not in state.conversation:
            raise ClientError(
                "item_create_invalid_previous_item_id",
                f"Error adding item: the previous item with id {after!r} does not exist.",
                "previous_item_id",
            )
        samples = None if audio is None else self._buffer.injectable(audio)
        add_item(state.outbox, state.conversation, item, after)
        if samples is not None:
            self._buffer.inject(item, samples, now_s)

    def delete(self, event: ItemDelete) -> None:
        """Take an item out."""
        if self._state.conversation.remove(event.item_id) is None:
            raise ClientError(
                "item_delete_invalid_item_id",
                f"Error deleting item: the item with id {event.item_id!r} does not exist.",
                "item_id",
            )
        self._state.outbox.send("conversation.item.deleted", item_id=event.item_id)

    def retrieve(self, event: ItemRetrieve) -> None:
        """Show an item as it is now."""
        item = self._state.conversation.get(event.item_id)
        if item is None:
            raise ClientError(
                "item_retrieve_invalid_item_id",
                f"Error retrieving item: the item with id {event.item_id!r} does not exist.",
                "item_id",
            )
        self._state.outbox.send("conversation.item.retrieved", item=write_item(item))

    def truncate(self, event: ItemTruncate, now_s: float) -> None:
        """Keep of a reply what the client has played; a little more than was sent is all of it."""
        item = self._state.conversation.get(event.item_id)
        if item is None:
            raise ClientError(
                "item_truncate_invalid_item_id",
                f"Error truncating item: the item with id {event.item_id!r} does not exist.",
                "item_id",
            )
        if item.role != "assistant" or not item.audio or event.content_index != 0:
            raise ClientError(
                "invalid_value", "Only model output audio messages can be truncated", "item_id"
            )
        length_ms = (item.cut_ms or 0.0) if item.truncated else item.sent_ms
        if event.audio_end_ms > length_ms + TRUNCATE_SLACK_MS:
            raise ClientError(
                "invalid_value",
                f"Audio content of {length_ms:.0f}ms is already shorter than "
                f"{event.audio_end_ms}ms",
                "audio_end_ms",
            )
        self._state.playback.stop(now_s)
        item.cut(min(float(event.audio_end_ms), length_ms))
        item.truncated = True
        self._state.outbox.send(
            "conversation.item.truncated",
            item_id=item.id,
            content_index=0,
            audio_end_ms=int(item.cut_ms or 0),
        )

    def input_of(self, patch: ResponsePatch) -> tuple[Item, ...] | None:
        """The items that a response has as its input, None for the conversation's."""
        if patch.input is None:
            return None
        items: list[Item] = []
        for index, wire in enumerate(patch.input):
            where = f"response.input.{index}"
            if isinstance(wire, ItemReference):
                known = self._state.conversation.get(wire.id)
                if known is None:
                    raise ClientError(
                        "invalid_value", f"There is no item {wire.id!r}.", f"{where}.id"
                    )
                items.append(known)
                continue
            item, audio = read_item(wire, self._state.outbox.new_id)
            if audio is not None:
                raise ClientError(
                    "invalid_value",
                    "Audio in a response's input needs its transcript; or add it as an item.",
                    f"{where}.content",
                )
            items.append(item)
        return tuple(items)
