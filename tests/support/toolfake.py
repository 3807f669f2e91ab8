"""A language model that calls the first tool it is given, and then says what came back."""

from __future__ import annotations

from collections.abc import AsyncIterator

from motet.components.base import Component, Context
from motet.components.frames import Completed, Frame, Prompt, TextDelta, ToolCall, Usage


class Caller(Component):
    """Without tools it repeats the user's last words."""

    accepts = (Prompt,)
    emits = (TextDelta, ToolCall, Completed)
    concurrency = 64

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        count = 0
        async for frame in frames:
            if not isinstance(frame, Prompt):
                continue
            last = frame.messages[-1]
            if frame.tools and last.role != "tool":
                count += 1
                name, call_id = frame.tools[0].name, f"call_{context.turn}_{count}"
                yield ToolCall(call_id, name, '{"city": ')
                yield ToolCall(call_id, name, '"Oslo"}', done=True)
                yield Completed("tool_calls", Usage(10, 5))
                continue
            said = (
                f"The answer is {last.text}." if last.role == "tool" else f"You said {last.text}."
            )
            for word in said.split(" "):
                yield TextDelta(word + " ", spoken=frame.spoken)
            yield Completed("stop", Usage(10, 5))
