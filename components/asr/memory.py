"""What a session's transcription remembers from one utterance to the next."""

from __future__ import annotations

from ..frames import TranscriptionSettings
from .requests import Decoded, Request
from .tokens import Tokens
from .window import Stretch

# Short speech is too little to tell a language by; that of the sentence before is likelier.
_TELLING_S = 2.0
_MAX_PROMPT = 128
_MAX_BEFORE = 32


class Memory:
    """Makes requests out of stretches: language, prompt, and the previous text as context.

    The context is what was said before in the same utterance, and up to `context_tokens` of the
    utterances before; a repetition makes those forgotten, so that a loop doesn't feed itself.
    """

    def __init__(self, tokens: Tokens, *, context_tokens: int, beam_size: int) -> None:
        self._tokens = tokens
        self._context_tokens = context_tokens
        self._beam_size = beam_size
        self._prompt: list[int] = []
        self._previous: list[int] = []
        self._language: str | None = None
        self._last_language: str | None = None

    def set(self, settings: TranscriptionSettings) -> None:
        """Follow the client.

        Raises:
            BadInput: the model doesn't know the language; it is then detected where it can be.
        """
        prompt = self._tokens.encode(" " + settings.prompt.strip()) if settings.prompt else []
        self._prompt = prompt[-_MAX_PROMPT:]
        self._language = None
        self._language = self._tokens.check_language(settings.language)

    def request(self, stretch: Stretch, *, before: str = "", tries: int = 3) -> Request:
        """A request for a stretch; `before` is the text of the same utterance so far."""
        same = self._tokens.encode(" " + before)[-_MAX_BEFORE:] if before else []
        language = self._language
        if language is None and stretch.voiced_s < _TELLING_S:
            language = self._last_language
        return Request(
            stretch.samples,
            context=tuple(self._prompt + self._previous + same),
            language=language,
            beam_size=self._beam_size,
            voiced_s=stretch.voiced_s,
            tries=tries,
        )

    def remember(self, decoded: Decoded, text: str) -> None:
        """Keep what was said, as it was accepted ("" where it wasn't)."""
        if "repetition" in decoded.flaws:
            self._previous.clear()
        elif text:
            self._previous += self._tokens.encode(" " + text)
            del self._previous[: max(0, len(self._previous) - self._context_tokens)]
            self._last_language = decoded.language
