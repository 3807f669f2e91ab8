"""Components for tests of the runtimes: they say which process they are, die, hang, or flood."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

from motet.components.base import Component, Context, Options, Setup, closing
from motet.components.errors import BadInput, MissingRequirement, MotetError, Overloaded
from motet.components.frames import Data, Frame, Image, Prompt, TextDelta, TextInput


class Worker(Component):
    """Answers each text by what it asks for; everything else comes back as it was."""

    accepts = (TextInput, Image, Data)
    emits = (TextInput, Image, Data)
    concurrency = 8

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            match frame:
                case TextInput(text="pid"):
                    yield Data(os.getpid())
                case TextInput(text="nap pid"):
                    await asyncio.sleep(0.3)
                    yield Data(os.getpid())
                case TextInput(text="context"):
                    yield Data([context.session_id, context.turn, context.key, context.priority])
                case TextInput(text="die"):
                    os.kill(os.getpid(), signal.SIGKILL)
                case TextInput(text="exit"):
                    os._exit(3)
                case TextInput(text="freeze"):
                    os.kill(os.getpid(), signal.SIGSTOP)
                case TextInput(text="sleep"):
                    await asyncio.sleep(3600)
                case TextInput(text="spin"):
                    await asyncio.to_thread(_spin)
                case TextInput(text="nap"):
                    await asyncio.sleep(0.3)
                    yield frame
                case TextInput(text="flood"):
                    for index in range(5_000):
                        yield TextInput("x", index)
                case TextInput(text="bad"):
                    raise BadInput("told to be bad", where=self.setup.node)
                case TextInput(text="full"):
                    raise Overloaded("told to be full", where=self.setup.node)
                case TextInput(text="fail"):
                    raise RuntimeError("told to fail")
                case _:
                    yield frame


class LoadOptions(Options):
    """How loading goes: it takes `load_s`, then `fails` or the process `dies`."""

    load_s: float = 0.0
    fails: bool = False
    dies: bool = False


class Loads(Worker):
    """A worker whose loading can be made slow, to fail, or to die."""

    options = LoadOptions

    async def load(self) -> None:
        told = LoadOptions.model_validate(self.setup.options)
        await asyncio.sleep(told.load_s)
        if told.dies:
            os._exit(9)
        if told.fails:
            raise MissingRequirement("the weights are not there", where=self.setup.node)


class Engaged(Worker):
    """Says that it has all that it can do while it has a run."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._runs = 0

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        self._runs += 1
        try:
            async with closing(super().run(frames, context)) as answers:
                async for answer in answers:
                    yield answer
        finally:
            self._runs -= 1

    def utilisation(self) -> float:
        return 1.0 if self._runs else 0.0


class Talk(Component):
    """A model that answers every prompt with the process that it runs in, word by word."""

    accepts = (Prompt,)
    emits = (TextDelta,)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for _ in frames:
            for word in ("I", "am", str(os.getpid())):
                yield TextDelta(word + " ")


class Pass(Component):
    """Passes a text on after a moment, with the processes that it went through."""

    accepts = (TextInput, Data)
    emits = (Data,)
    concurrency = 8

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            await asyncio.sleep(0.005)
            if isinstance(frame, TextInput):
                yield Data({"text": frame.text, "path": [os.getpid()]})
            elif isinstance(frame, Data):
                yield Data({**frame.value, "path": [*frame.value["path"], os.getpid()]})


class Lender(Worker):
    """Does what it is told, except for what it is told to "lend" to its fellows, all at once: of
    that it answers what came back, or the code of the error.
    """

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        given = [frame async for frame in frames]
        own = [one for one in given if not _lent(one)]
        async for answer in super().run(_source(*own), context):
            yield answer
        if own == given:
            return
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(self._lend(one, context))
                for one in given
                if isinstance(one, TextInput) and _lent(one)
            ]
        for task in asked:
            yield Data(task.result())

    async def _lend(self, told: TextInput, context: Context) -> object:
        if context.fellows is None:
            return "alone"
        text = TextInput(told.text.removeprefix("lend "))
        try:
            async with closing(context.fellows.call(_source(text))) as answers:
                first = await anext(answers)
                return getattr(first, "value", first)
        except MotetError as error:
            return error.code


def _lent(frame: Frame) -> bool:
    return isinstance(frame, TextInput) and frame.text.startswith("lend ")


async def _source(*frames: Frame) -> AsyncIterator[Frame]:
    for frame in frames:
        yield frame


def _spin() -> None:
    while True:
        pass
