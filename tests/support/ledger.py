"""What a realtime session has opened and closed, as its events tell it."""

from __future__ import annotations

import base64
from typing import Any

Event = dict[str, Any]


class Ledger:
    """Reads the events as they come, and remembers what is open."""

    def __init__(self) -> None:
        self.responses: dict[str, Event] = {}
        self.over: set[str] = set()
        self.open_items: set[tuple[str, str]] = set()
        self.open_parts: set[str] = set()
        self.added: set[str] = set()
        self.done: set[str] = set()
        self.gone: set[str] = set()
        self.speaking: str | None = None
        self.stopped: set[str] = set()
        self.committed: set[str] = set()
        self.cancelled_by_speech = 0
        self.ids: set[str] = set()

    def read(self, event: Event) -> None:
        assert event["event_id"] not in self.ids, "an event id came twice"
        self.ids.add(event["event_id"])
        kind = event["type"]
        if (response_id := event.get("response_id")) is not None and kind.startswith("response."):
            assert response_id in self.responses, "before response.created"
            assert response_id not in self.over, f"{kind} after response.done"
        handler = getattr(self, "on_" + kind.replace(".", "_"), None)
        if handler is not None:
            handler(event)

    @property
    def active(self) -> list[str]:
        return [r for r in self.responses if r not in self.over]

    def on_response_created(self, event: Event) -> None:
        response = event["response"]
        assert response["id"] not in self.responses
        if response["conversation_id"] is not None:
            main = [r for r in self.active if self.responses[r]["conversation_id"] is not None]
            assert not main, "two active responses"
        self.responses[response["id"]] = response

    def on_response_done(self, event: Event) -> None:
        response, begun = event["response"], self.responses[event["response"]["id"]]
        assert response["id"] not in self.over, "a second terminal"
        self.over.add(response["id"])
        for fixed in ("output_modalities", "max_output_tokens", "audio", "metadata"):
            assert response[fixed] == begun[fixed], "its settings changed under way"
        assert not [i for r, i in self.open_items if r == response["id"]]
        assert response["status"] in ("completed", "cancelled", "failed", "incomplete")
        details = response["status_details"]
        assert (details is None) == (response["status"] == "completed")

    def on_response_output_item_added(self, event: Event) -> None:
        self.open_items.add((event["response_id"], event["item"]["id"]))

    def on_response_output_item_done(self, event: Event) -> None:
        assert event["item"]["id"] not in self.open_parts, "the part is still open"
        self.open_items.remove((event["response_id"], event["item"]["id"]))

    def on_response_content_part_added(self, event: Event) -> None:
        self.open_parts.add(event["item_id"])

    def on_response_content_part_done(self, event: Event) -> None:
        self.open_parts.remove(event["item_id"])

    def on_response_output_audio_delta(self, event: Event) -> None:
        assert event["item_id"] in self.open_parts
        assert len(base64.b64decode(event["delta"])) % 2 == 0

    def on_conversation_item_added(self, event: Event) -> None:
        assert event["item"]["id"] not in self.added
        previous = event["previous_item_id"]
        assert previous is None or previous in self.added - self.gone
        self.added.add(event["item"]["id"])

    def on_conversation_item_done(self, event: Event) -> None:
        assert event["item"]["id"] in self.added
        self.done.add(event["item"]["id"])

    def on_conversation_item_deleted(self, event: Event) -> None:
        self.gone.add(event["item_id"])

    def on_input_audio_buffer_speech_started(self, event: Event) -> None:
        assert self.speaking is None, "speech started twice"
        self.speaking = event["item_id"]

    def on_input_audio_buffer_speech_stopped(self, event: Event) -> None:
        assert self.speaking == event["item_id"]
        self.speaking = None
        self.stopped.add(event["item_id"])

    def on_input_audio_buffer_committed(self, event: Event) -> None:
        assert event["item_id"] not in self.committed, "committed twice"
        assert self.speaking != event["item_id"], "committed while it is spoken"
        self.committed.add(event["item_id"])
