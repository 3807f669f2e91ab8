"""From the items of a conversation to the messages of a prompt that a model can take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ..components.errors import BadInput
from ..components.frames import CallRequest, Message
from .conversation import Item
from .turns import has_words

_TOKENS_PER_MESSAGE = 4
_TOKENS_PER_IMAGE = 256
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a prompt may be. When the history is longer, whole old turns are forgotten.

    It then shrinks to `keep` (0..1) of `max_tokens`, so that it isn't cut again at every turn;
    `cut` False refuses a long history instead.
    """

    max_tokens: int = 1024
    keep: float = 1.0
    cut: bool = True


@dataclass(slots=True)
class _Turn:
    messages: list[Message] = field(default_factory=list[Message])
    ids: list[str] = field(default_factory=list[str])
    pinned: bool = False

    @property
    def tokens(self) -> int:
        return sum(estimate_tokens(message) for message in self.messages)


def estimate_tokens(message: Message) -> int:
    """A model-free estimate: four bytes of UTF-8 to a token, and a flat price per picture."""
    text = message.text + "".join(call.name + call.arguments for call in message.calls)
    size = len(text.encode(errors="replace")) // _BYTES_PER_TOKEN
    return size + _TOKENS_PER_MESSAGE + _TOKENS_PER_IMAGE * len(message.images)


class History:
    """Makes prompts, and remembers which turns it has forgotten so that they stay forgotten."""

    def __init__(self) -> None:
        self._forgotten: set[str] = set()

    def messages(
        self, items: Iterable[Item], instructions: str, budget: Budget
    ) -> tuple[Message, ...]:
        """The prompt: instructions first, then what was said and heard, turn by turn.

        Raises:
            BadInput: the history is longer than the budget, and may not be cut.
        """
        items = list(items)
        self._forgotten &= {item.id for item in items}
        turns = _turns([item for item in items if item.id not in self._forgotten])
        system = [Message("system", instructions)] if instructions else []
        base = sum(estimate_tokens(message) for message in system)
        self._fit(turns, base, budget)
        return (*system, *(message for turn in turns for message in turn.messages))

    def _fit(self, turns: list[_Turn], base: int, budget: Budget) -> None:
        total = base + sum(turn.tokens for turn in turns)
        if total <= budget.max_tokens:
            return
        if not budget.cut:
            raise BadInput(
                f"The conversation has about {total} tokens; the limit is {budget.max_tokens}, "
                "and truncation is disabled."
            )
        goal = budget.max_tokens * budget.keep
        newest = next((turn for turn in reversed(turns) if not turn.pinned), None)
        kept: list[_Turn] = []
        for turn in turns:
            if turn.pinned or turn is newest or total <= goal:
                kept.append(turn)
                continue
            total -= turn.tokens
            self._forgotten.update(turn.ids)
        turns[:] = kept


def _turns(items: list[Item]) -> list[_Turn]:
    """A turn begins with what the user says; system messages stand apart and are never dropped."""
    outputs = {item.answers: item for item in items if item.answers is not None}
    turns: list[_Turn] = []
    for item in items:
        message = _message(item, outputs)
        if message is None:
            continue
        if item.role == "system" and item.call is None:
            turns.append(_Turn([message], [item.id], pinned=True))
            continue
        if not turns or turns[-1].pinned or _begins(turns[-1], message):
            turns.append(_Turn())
        turns[-1].ids.append(item.id)
        _append(turns[-1].messages, message)
        if item.call is not None:
            output = outputs[item.call.call_id]
            turns[-1].ids.append(output.id)
            turns[-1].messages.append(Message("tool", output.text, call_id=item.call.call_id))
    return turns


def _message(item: Item, outputs: dict[str, Item]) -> Message | None:
    """The item as a message; None for half a tool pair, and for what has nothing to say."""
    if item.answers is not None:
        return None
    if item.call is not None:
        return Message("assistant", calls=(item.call,)) if item.call.call_id in outputs else None
    text = item.heard.strip()
    if item.audio and item.role == "user" and not has_words(text):
        return None
    return Message(item.role, text, images=item.images) if text or item.images else None


def _begins(turn: _Turn, message: Message) -> bool:
    return message.role == "user" and turn.messages[-1].role != "user"


def _append(messages: list[Message], message: Message) -> None:
    """Join what one side says in a row: utterances before an answer, a reply and its calls."""
    last = messages[-1] if messages else None
    if last is None:
        messages.append(message)
    elif message.calls and (index := _calling(messages)) is not None:
        messages[index] = _with_calls(messages[index], message.calls)
    elif last.role == message.role and not last.calls and not message.calls:
        text = " ".join(part for part in (last.text, message.text) if part)
        messages[-1] = replace(last, text=text, images=last.images + message.images)
    else:
        messages.append(message)


def _calling(messages: list[Message]) -> int | None:
    """The assistant message that a further call joins: the last one, tool outputs skipped."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "assistant":
            return index
        if messages[index].role != "tool":
            return None
    return None


def _with_calls(message: Message, calls: tuple[CallRequest, ...]) -> Message:
    return replace(message, calls=message.calls + calls)
