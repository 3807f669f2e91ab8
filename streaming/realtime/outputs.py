"""What a response puts out, item by item: each `added` event gets its `done`, however it ends."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from ...components.frames import Audio, CallRequest, Spoken
from ...pipelines.conversation import Conversation, Item, Status
from ...pipelines.playback import Playback
from .codec import AudioEncoder, AudioFormat
from .effects import Event, Outbox
from .items import write_item


@dataclass(frozen=True, slots=True)
class Place:
    """Where outputs go. `conversation` and `playback` are None out of band."""

    outbox: Outbox
    response_id: str
    conversation: Conversation | None = None
    playback: Playback | None = None


class Output:
    """One item of a response. `wire` is what `output_item.done` said, None until then."""

    def __init__(self, place: Place, index: int, item: Item) -> None:
        self.item = item
        self.wire: Event | None = None
        self._place = place
        self._index = index
        item.status = "in_progress"

    def open(self) -> None:
        """Tell of the item."""
        place, item = self._place, write_item(self.item)
        place.outbox.send(
            "response.output_item.added",
            response_id=place.response_id,
            output_index=self._index,
            item=item,
        )
        if place.conversation is None:
            return
        dropped = place.conversation.add(self.item)
        previous = place.conversation.before(self.item.id)
        place.outbox.send("conversation.item.added", previous_item_id=previous, item=item)
        for item_id in dropped:
            place.outbox.send("conversation.item.deleted", item_id=item_id)

    def close(self, status: Status, now_s: float) -> None:
        """Close what is open in it, then the item. Idempotent."""
        if self.wire is not None:
            return
        self.close_parts(now_s)
        self.item.status = status
        self.wire = write_item(self.item)
        place = self._place
        place.outbox.send(
            "response.output_item.done",
            response_id=place.response_id,
            output_index=self._index,
            item=self.wire,
        )
        if place.conversation is not None and self.item.id in place.conversation:
            previous = place.conversation.before(self.item.id)
            place.outbox.send("conversation.item.done", previous_item_id=previous, item=self.wire)

    def close_parts(self, now_s: float) -> None:
        """The `done` events of what lies in the item."""

    def _send(self, kind: str, **fields: object) -> None:
        self._place.outbox.send(
            kind,
            response_id=self._place.response_id,
            item_id=self.item.id,
            output_index=self._index,
            **fields,
        )


class TextOutput(Output):
    """A message of written text."""

    def open(self) -> None:
        """Tell of the item and its one part."""
        super().open()
        self._send(
            "response.content_part.added", content_index=0, part={"type": "text", "text": ""}
        )

    def write(self, text: str) -> None:
        """The next piece of text."""
        self.item.text += text
        self._send("response.output_text.delta", content_index=0, delta=text)

    def close_parts(self, now_s: float) -> None:
        """The text, whole."""
        text = self.item.text
        self._send("response.output_text.done", content_index=0, text=text)
        self._send(
            "response.content_part.done", content_index=0, part={"type": "text", "text": text}
        )


class SpokenOutput(Output):
    """A message that is spoken: audio, and the transcript of it."""

    def __init__(self, place: Place, index: int, item: Item, format: AudioFormat) -> None:
        super().__init__(place, index, item)
        item.audio = True
        self._encoder = AudioEncoder(format)

    def open(self) -> None:
        """Tell of the item and its one part."""
        super().open()
        part = {"type": "audio", "transcript": ""}
        self._send("response.content_part.added", content_index=0, part=part)

    def say(self, piece: Spoken) -> None:
        """What the audio that follows says."""
        self.item.slices.append(piece)
        self.write(piece.text)

    def write(self, text: str) -> None:
        """The next piece of transcript."""
        if text:
            self.item.text += text
            self._send("response.output_audio_transcript.delta", content_index=0, delta=text)

    def play(self, audio: Audio, now_s: float) -> None:
        """The next piece of audio."""
        self._play(self._encoder.push(audio.pcm, audio.rate_hz), now_s)

    def _play(self, pieces: list[bytes], now_s: float) -> None:
        for data in pieces:
            self._send(
                "response.output_audio.delta",
                content_index=0,
                delta=base64.b64encode(data).decode(),
            )
            duration_ms = self._encoder.duration_ms(data)
            self.item.sent_ms += duration_ms
            if self._place.playback is not None:
                self._place.playback.sent(self.item.id, duration_ms, now_s)

    def finish(self, now_s: float) -> None:
        """All audio is there: send what the resampler still holds."""
        self._play(self._encoder.flush(), now_s)

    def close_parts(self, now_s: float) -> None:
        """The audio's end, and the transcript as far as it was sent."""
        text = self.item.text
        self._send("response.output_audio.done", content_index=0)
        self._send("response.output_audio_transcript.done", content_index=0, transcript=text)
        part = {"type": "audio", "transcript": text}
        self._send("response.content_part.done", content_index=0, part=part)


class CallOutput(Output):
    """A tool call, its arguments as they are written."""

    def __init__(self, place: Place, index: int, item_id: str, call: CallRequest) -> None:
        super().__init__(place, index, Item(item_id, "assistant", call=call))
        self._call = call

    def write(self, arguments: str) -> None:
        """The next piece of the arguments."""
        if not arguments:
            return
        whole = self._call.arguments + arguments
        self._call = self.item.call = CallRequest(self._call.call_id, self._call.name, whole)
        self._send(
            "response.function_call_arguments.delta", call_id=self._call.call_id, delta=arguments
        )

    def close_parts(self, now_s: float) -> None:
        """The arguments, whole."""
        self._send(
            "response.function_call_arguments.done",
            call_id=self._call.call_id,
            name=self._call.name,
            arguments=self._call.arguments,
        )
