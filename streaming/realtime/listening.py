"""The listening side: utterances of the pipeline become items, events and transcripts.

A detector's utterance gets its item when it starts. A client's commit makes its item at once; the
pipeline's utterance for it (`detected` False) comes later, and commits are matched in order.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ...components.frames import Fault, SpeechStarted, SpeechStopped, Transcript
from ...pipelines.conversation import Conversation, Item
from ...pipelines.turns import TurnTaking
from .effects import Event, Outbox
from .faults import server_error
from .items import write_item
from .settings import Settings

# A detector has told of an utterance once this much voice is heard; see `_was_on_its_way`.
_ONSET_MS = 64.0
_MAX_EARLY = 16


@dataclass(slots=True)
class Utterance:
    """One stretch of speech on its way to a transcript. `over_s` is when it was committed."""

    item_id: str
    start_ms: float = 0.0
    committed_ms: float = 0.0
    committed: bool = False
    announced: bool = False
    partial: str = ""
    length_ms: float = 0.0
    over_s: float = math.inf


class Listening:
    """Pure state. Times of the standing stream leave as the client's: `shift_ms` is subtracted."""

    def __init__(
        self,
        outbox: Outbox,
        conversation: Conversation,
        turns: TurnTaking,
        settings: Callable[[], Settings],
        limit_s: float,
    ) -> None:
        self.shift_ms = 0.0
        self._outbox = outbox
        self._conversation = conversation
        self._turns = turns
        self._settings = settings
        self._limit_s = limit_s
        self._open: dict[int, Utterance] = {}
        self._promised: deque[Utterance] = deque()
        self._early: dict[int, Transcript] = {}
        self._begun_ms = 0.0

    @property
    def speaking(self) -> bool:
        """Whether a detector hears speech that isn't committed yet."""
        return any(one.announced and not one.committed for one in self._open.values())

    def started(self, frame: SpeechStarted) -> bool:
        """Whether somebody begins to speak: a detector says so, not a client."""
        if not frame.detected:
            self._begun_ms = frame.start_ms
            return False
        if self._promised and self._was_on_its_way(frame, self._promised[0]):
            self._open[frame.utterance] = self._promised.popleft()
            return False
        one = Utterance(self._outbox.new_id("item"), frame.start_ms, announced=True)
        self._open[frame.utterance] = one
        self._turns.started(one.item_id)
        self._outbox.send(
            "input_audio_buffer.speech_started",
            audio_start_ms=self._client_ms(frame.start_ms),
            item_id=one.item_id,
        )
        return True

    def stopped(self, frame: SpeechStopped, now_s: float) -> None:
        """The utterance is over: commit it, unless a client has already, or it was dropped."""
        one = self._open.get(frame.utterance)
        if one is None and not frame.detected and not frame.dropped:
            # Without a promise the pipeline ended an utterance that nobody asked it to.
            one = self._promised.popleft() if self._promised else self._utterance()
            self._open[frame.utterance] = one
        early = self._early.pop(frame.utterance, None)
        if one is None:
            return
        one.length_ms = frame.end_ms - (one.start_ms if one.announced else self._begun_ms)
        if one.announced and not one.committed:
            self._tell_stopped(one, frame.end_ms)
        if frame.dropped:
            self._drop(frame.utterance, one)
        elif not one.committed:
            detection = self._settings().detection
            answer = one.announced and detection is not None and detection.create_response
            self._commit(one, now_s, answer=answer)
        if early is not None and frame.utterance in self._open:
            self.transcript(early)

    def commit(self, position_ms: float, now_s: float) -> None:
        """The client commits what it has sent up to `position_ms`: its item is there at once."""
        one = next((u for u in self._open.values() if u.announced and not u.committed), None)
        if one is None:
            one = self._utterance()
            self._promised.append(one)
        else:
            self._tell_stopped(one, position_ms)
        one.committed_ms = position_ms
        self._commit(one, now_s, answer=False)

    def promise(self, item: Item, now_s: float) -> None:
        """A commit is under way for audio that came with this item."""
        self._promised.append(Utterance(item.id, committed=True, over_s=now_s))
        self._turns.stopped(item.id, dropped=False, answer=False)

    def transcript(self, frame: Transcript) -> None:
        """Pass on what was understood."""
        one = self._open.get(frame.utterance)
        if frame.final and (one is None or not one.committed):
            self._keep_early(frame)
        elif one is not None and frame.final:
            del self._open[frame.utterance]
            self._complete(one, frame)
        elif one is not None:
            self._grow(one, frame.text)

    def fault(self, frame: Fault, position_ms: float) -> None:
        """A listening component failed: what it was at is lost, and says so."""
        if frame.utterance:
            one = self._open.pop(frame.utterance, None)
            lost = [one] if one is not None else []
        else:
            lost = [*self._open.values(), *self._promised]
            self._open.clear()
            self._promised.clear()
            self._early.clear()
        for one in lost:
            if one.announced and not one.committed:
                self._tell_stopped(one, position_ms)
            self._fail(one, frame.code, frame.message)

    def deadline_s(self) -> float:
        """When a transcript is overdue; infinite where none is awaited."""
        waiting = [*self._open.values(), *self._promised]
        return min((one.over_s for one in waiting), default=math.inf) + self._limit_s

    def tick(self, now_s: float) -> None:
        """Give up on transcripts that are overdue."""
        late = {n: u for n, u in self._open.items() if u.over_s + self._limit_s <= now_s}
        for number, one in late.items():
            del self._open[number]
            self._fail(one, "transcription_timeout", "The transcript took too long.")
        while self._promised and self._promised[0].over_s + self._limit_s <= now_s:
            self._fail(self._promised.popleft(), "transcription_timeout", "No transcript came.")

    def _tell_stopped(self, one: Utterance, end_ms: float) -> None:
        self._outbox.send(
            "input_audio_buffer.speech_stopped",
            audio_end_ms=self._client_ms(end_ms),
            item_id=one.item_id,
        )

    def _keep_early(self, frame: Transcript) -> None:
        """A transcript may overtake the end of its utterance, which comes on another way."""
        self._early[frame.utterance] = frame
        if len(self._early) > _MAX_EARLY:
            del self._early[min(self._early)]

    def _was_on_its_way(self, frame: SpeechStarted, promise: Utterance) -> bool:
        """Whether the detector had opened this utterance before it saw the client's commit."""
        detection = self._settings().detection
        padding_ms = detection.prefix_padding_ms if detection is not None else 0
        return frame.start_ms + padding_ms + _ONSET_MS <= promise.committed_ms

    def _utterance(self) -> Utterance:
        return Utterance(self._outbox.new_id("item"))

    def _drop(self, utterance: int, one: Utterance) -> None:
        del self._open[utterance]
        if one.committed:
            self._complete(one, Transcript("", final=True, utterance=utterance))
        else:
            self._turns.stopped(one.item_id, dropped=True, answer=False)

    def _commit(self, one: Utterance, now_s: float, *, answer: bool) -> None:
        one.committed, one.over_s = True, now_s
        self._turns.stopped(one.item_id, dropped=False, answer=answer)
        previous = self._conversation.last_id
        self._outbox.send(
            "input_audio_buffer.committed", previous_item_id=previous, item_id=one.item_id
        )
        add_item(
            self._outbox, self._conversation, Item(one.item_id, audio=True, pending=True), None
        )

    def _complete(self, one: Utterance, frame: Transcript) -> None:
        text = frame.text.strip()
        self._turns.transcribed(one.item_id, text)
        self._fill(one, text)
        if self._settings().transcription is None:
            return
        self._grow(one, text)
        self._outbox.send(
            "conversation.item.input_audio_transcription.completed",
            item_id=one.item_id,
            content_index=0,
            transcript=text,
            usage={
                "type": "duration",
                "seconds": round((frame.audio_ms or one.length_ms) / 1000, 3),
            },
            **self._logprobs(frame),
        )

    def _fill(self, one: Utterance, text: str) -> None:
        item = self._conversation.get(one.item_id)
        if item is not None:
            item.pending = False
            item.text = "\n".join(part for part in (item.text, text) if part)

    def _grow(self, one: Utterance, text: str) -> None:
        """Send what is new, where the text goes on from what was sent before."""
        text = text.strip()
        wanted = self._settings().transcription is not None and (one.announced or one.committed)
        if not wanted or len(text) <= len(one.partial) or not text.startswith(one.partial):
            return
        self._outbox.send(
            "conversation.item.input_audio_transcription.delta",
            item_id=one.item_id,
            content_index=0,
            delta=text[len(one.partial) :],
        )
        one.partial = text

    def _logprobs(self, frame: Transcript) -> Event:
        """Per word, as the engine gives it, where the session asks for logprobs."""
        if "item.input_audio_transcription.logprobs" not in self._settings().include:
            return {}
        words = [
            {
                "token": word.text,
                "bytes": list(word.text.encode()),
                "logprob": math.log(max(word.probability, 1e-10)),
            }
            for word in frame.words
        ]
        return {"logprobs": words}

    def _fail(self, one: Utterance, code: str, message: str) -> None:
        if not one.committed:
            self._turns.stopped(one.item_id, dropped=True, answer=False)
            return
        self._turns.transcribed(one.item_id, "")
        self._fill(one, "")
        self._outbox.send(
            "conversation.item.input_audio_transcription.failed",
            item_id=one.item_id,
            content_index=0,
            error=server_error(code, message) | {"param": None},
        )

    def _client_ms(self, stream_ms: float) -> int:
        return round(max(0.0, stream_ms - self.shift_ms))


def add_item(outbox: Outbox, conversation: Conversation, item: Item, after: str | None) -> None:
    """Put the item into the conversation, and tell: added, done, and what had to go for it.

    Raises:
        BadInput: its id is taken, or `after` is unknown.
    """
    dropped = conversation.add(item, after)
    previous = conversation.before(item.id)
    for kind, status in (("added", "in_progress" if item.pending else None), ("done", None)):
        wire = write_item(item, status)  # pyright: ignore[reportArgumentType]
        outbox.send(f"conversation.item.{kind}", previous_item_id=previous, item=wire)
    for item_id in dropped:
        outbox.send("conversation.item.deleted", item_id=item_id)
