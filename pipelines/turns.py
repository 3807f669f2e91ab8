"""Whose turn it is: when the user's words are complete and want an answer."""

from __future__ import annotations

from typing import Literal

Due = Literal["answer", "resume"]


def has_words(text: str) -> bool:
    """Whether a transcript says anything: noise comes back empty, or as bare punctuation."""
    return any(character.isalnum() for character in text)


class TurnTaking:
    """Pure state: utterances (by any id) come in, `due` says what the assistant should do now.

    An answer is due when nobody speaks, every utterance has its transcript, and one of those that
    want an answer holds words; so several utterances in a row get one answer. A reply that was cut
    off by an utterance without words (a cough, a door) is due to be resumed: it is made again on
    the history of what was heard, so that a noise never silences the assistant for good.
    """

    def __init__(self) -> None:
        self._speaking: set[str] = set()
        self._waiting: dict[str, bool] = {}
        self._unanswered = False
        self._cut = False

    @property
    def speaking(self) -> bool:
        """Whether an utterance is open."""
        return bool(self._speaking)

    @property
    def waiting(self) -> frozenset[str]:
        """Utterances that are over but have no transcript yet."""
        return frozenset(self._waiting)

    def started(self, utterance: str) -> None:
        """Someone begins to speak."""
        self._speaking.add(utterance)

    def stopped(self, utterance: str, *, dropped: bool, answer: bool) -> None:
        """The utterance is over; `answer` says whether it wants one by itself."""
        self._speaking.discard(utterance)
        if not dropped:
            self._waiting[utterance] = answer

    def transcribed(self, utterance: str, text: str) -> None:
        """The final transcript, "" where nothing could be made out."""
        answer = self._waiting.pop(utterance, False)
        if has_words(text):
            self._cut = False
            self._unanswered = self._unanswered or answer

    def interrupted(self) -> None:
        """A reply was cut off by someone who seemed to begin to speak."""
        self._cut = True

    def settled(self) -> None:
        """A reply is under way that answers all that was said, or nobody wants one any more."""
        self._cut = False
        self._unanswered = False
        self._waiting = dict.fromkeys(self._waiting, False)

    def due(self) -> Due | None:
        """What to do now, None while somebody speaks or is yet to be understood."""
        if self._speaking or self._waiting:
            return None
        if self._unanswered:
            return "answer"
        return "resume" if self._cut else None
