"""What every Whisper engine shares: checks of a request, its context, and second tries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..errors import BadInput
from .requests import (
    CONTEXT_STEP,
    MAX_CONTEXT,
    WINDOW_S,
    Decoded,
    Request,
    better,
    full_length,
    sampled,
)
from .tokens import Tokens


class Engine(ABC):
    """One model in memory. Methods block and belong in a thread (`batching.Batcher`'s)."""

    tokens: Tokens

    @abstractmethod
    def decode_once(self, requests: Sequence[Request]) -> list[Decoded]:
        """Decode a batch without retries, in order; `check` each request first."""

    def transcribe(self, requests: Sequence[Request]) -> list[Decoded]:
        """Decode, check, and decode again what fails a check: at full length, then sampled.

        Raises:
            BadInput: a stretch is empty or over 30 s, or its language unknown.
        """
        found = self.decode_once(requests)
        for step, retry in enumerate((full_length, sampled), 2):
            failed = [n for n, one in enumerate(found) if one.flaws and not one.is_silence]
            again = {n: retry(requests[n]) for n in failed if requests[n].tries >= step}
            again = {n: request for n, request in again.items() if request is not None}
            redone = self.decode_once(list(again.values()))
            for n, new in zip(again, redone, strict=True):
                found[n] = better(found[n], new)
        return found

    def check(self, request: Request) -> None:
        """Refuse what can't be decoded, before it costs anything."""
        if not 0 < request.duration_s <= WINDOW_S:
            raise BadInput(
                f"a stretch of {request.duration_s:.2f} s; possible: above 0, up to {WINDOW_S}",
                where="asr",
            )
        self.tokens.check_language(request.language)

    def context(self, request: Request) -> list[int]:
        """The previous text with its start token, its length a multiple of 16 (or none at all)."""
        length = min(len(request.context), MAX_CONTEXT - 1) // CONTEXT_STEP * CONTEXT_STEP
        return [self.tokens.previous, *request.context[-length:]] if length else []
