"""A language model that calls tools on cue, and a recogniser that is stuck."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from motet.components.base import Component, Context
from motet.components.frames import (
    Audio,
    Completed,
    Frame,
    Prompt,
    SpeechPaused,
    SpeechStarted,
    SpeechStopped,
    TextDelta,
    ToolCall,
    Transcript,
    Usage,
)


class Caller(Component):
    """Calls its first tool and says what came back; without tools it repeats the last words."""

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


class Deaf(Component):
    """A recogniser that never takes a second frame."""

    accepts = (Audio, SpeechStarted, SpeechPaused, SpeechStopped)
    emits = (Transcript,)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for _ in frames:
            await asyncio.sleep(3600)
            yield Transcript("", final=True)
