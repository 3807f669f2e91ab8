"""What language models that take prompts alone share: one after the other, each answered."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from ..base import Component, Context
from ..frames import Completed, Control, Frame, Prompt, TextDelta, ToolCall, Voice


class PromptLlm(Component):
    """Answers each `Prompt` with text and calls, and its `Completed`; an engine adds `answer`.

    A `Voice` is passed on in its place, for the TTS behind.
    """

    accepts = (Prompt, Voice)
    emits = (TextDelta, ToolCall, Completed, Voice)

    @abstractmethod
    def answer(self, prompt: Prompt, context: Context) -> AsyncGenerator[Frame, None]:
        """The frames of one answer. Closing the iterator stops the work in the engine."""

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            if isinstance(frame, Prompt):
                async with aclosing(self.answer(frame, context)) as pieces:
                    async for piece in pieces:
                        yield piece
            elif isinstance(frame, Control | Voice):
                yield frame
