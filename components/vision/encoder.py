"""`vision/encoder`: the encoder of a vision-language model, apart from its language model.

It sends each picture's rows as an `Embedding`, in order, then the `Prompt` itself without the
pictures' bytes. `llm/hf` with the same `model:` takes both.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import Field

from ..base import Component, Context, Options, Setup
from ..batching import Batcher
from ..errors import BadInput
from ..frames import Control, Embedding, Frame, ImagePart, Message, Prompt
from ..models import lacking, locate
from ..pixels import decode, size_of
from ..vlm import Picture
from .budget import Policy, allot
from .cache import SharedCache, digest_of
from .looking import Settings
from .tower import VisionTower

REMEMBERED = 100_000


class VisionEncoderOptions(Options):
    """How closely pictures are looked at, in tokens, and what is kept.

    A picture of detail "low" takes at most `low_tokens`, any other `high_tokens`, those of one
    prompt together `prompt_tokens`, or less where the prompt says so.
    """

    device: str = "cpu"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    low_tokens: int = Field(64, ge=4)
    high_tokens: int = Field(1280, ge=4)
    prompt_tokens: int = Field(8192, ge=16)
    max_pictures: int = Field(64, ge=1, le=1024)
    cache_mib: int = Field(512, ge=0, description="memory for rows of pictures seen before")
    batch: int = Field(8, ge=1, le=64)


@dataclass(frozen=True, slots=True)
class Look:
    """One picture, the processor's settings for it, and the key of its rows."""

    data: bytes
    settings: Settings
    key: str

    def make(
        self, how: Callable[[bytes, Settings], Awaitable[Picture]]
    ) -> Callable[[], Awaitable[Picture]]:
        """What makes the rows."""
        return lambda: how(self.data, self.settings)


class VisionEncoder(Component):
    """One encoder for every session; equal pictures are encoded once, however many ask."""

    accepts = (Prompt,)
    emits = (Embedding, Prompt)
    options = VisionEncoderOptions
    concurrency = 64

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._options = VisionEncoderOptions.model_validate(dict(setup.options))
        self.cache: SharedCache[Picture] = SharedCache(self._options.cache_mib * 1024 * 1024)
        self._tower: VisionTower | None = None
        self._batcher: Batcher[dict[str, Any], Picture] | None = None
        self._keys: OrderedDict[str, str] = OrderedDict()

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        if not setup.model:
            return ["vision/encoder needs `model:`, a folder or hub id of a vision-language model"]
        return lacking(setup.model, "vision/encoder", "config.json")

    async def load(self) -> None:
        options = self._options
        self._tower = await asyncio.to_thread(
            lambda: VisionTower(
                locate(self.setup.model or ""),
                device=options.device,
                dtype=options.dtype,
                threads=self.setup.resources.threads,
            )
        )
        self._batcher = Batcher(self._tower.encode, size=options.batch, name=self.setup.node)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            if isinstance(frame, Prompt):
                async with aclosing(self._look(frame, context)) as pieces:
                    async for piece in pieces:
                        yield piece
            elif isinstance(frame, Control):
                yield frame

    async def _look(self, prompt: Prompt, context: Context) -> AsyncGenerator[Frame, None]:
        tower = self.loaded(self._tower)
        context.check(where=self.setup.node)
        parts = [image for message in prompt.messages for image in message.images]
        if not parts:
            yield prompt
            return
        looks = await asyncio.to_thread(self._choose, tower, parts, prompt.image_tokens)
        with ExitStack() as held:
            # All are asked for before the first is awaited, so that they share batches.
            rows = [
                held.enter_context(self.cache.hold(look.key, look.make(self._make)))
                for look in looks
                if look is not None
            ]
            for index, making in enumerate(rows):
                yield (await making).embedding(index, tower.model_type)
            yield without_bytes(prompt, [look is not None for look in looks])

    def _choose(
        self, tower: VisionTower, parts: list[ImagePart], total: int | None
    ) -> list[Look | None]:
        """How to look at each picture; None for one that is left out."""
        options, looking = self._options, tower.looking
        if sum(not part.clip for part in parts) > options.max_pictures:
            raise BadInput(
                f"more than {options.max_pictures} pictures", where="messages", param="messages"
            )
        sizes = [size_of(part.data) for part in parts]
        policy = Policy(
            max(options.low_tokens, looking.least),
            max(options.high_tokens, looking.least),
            looking.least,
            options.prompt_tokens,
        )
        natural = [looking.natural(size) for size in sizes]
        tokens = allot(parts, natural, policy, total=total)
        return [
            None
            if count is None
            else self._look_at(tower, part.data, looking.settings(size, count))
            for part, size, count in zip(parts, sizes, tokens, strict=True)
        ]

    def _look_at(self, tower: VisionTower, data: bytes, settings: Settings) -> Look:
        """With the cache's key; equal bytes needn't be decoded again to have equal pixels."""
        seen = digest_of(data, str(settings))
        key = self._keys.get(seen)
        if key is None:
            key = self._keys[seen] = tower.key(decode(data), settings)
            while len(self._keys) > REMEMBERED:
                self._keys.popitem(last=False)
        return Look(data, settings, key)

    async def _make(self, data: bytes, settings: Settings) -> Picture:
        tower = self.loaded(self._tower)
        inputs = await asyncio.to_thread(lambda: tower.prepare(decode(data), settings))
        return await self.loaded(self._batcher)(inputs)

    async def close(self) -> None:
        await self.cache.close()
        if self._batcher is not None:
            await self._batcher.close()
        self._batcher = self._tower = None

    def utilisation(self) -> float | None:
        """Share of a batch that waits for the one under way."""
        waiting = 0 if self._batcher is None else self._batcher.waiting
        return min(1.0, waiting / self._options.batch)


def without_bytes(prompt: Prompt, kept: list[bool]) -> Prompt:
    """The prompt with empty pictures in place of those that were encoded, without the others."""
    marks = iter(kept)
    messages: list[Message] = []
    for message in prompt.messages:
        images = tuple(replace(one, data=b"") for one in message.images if next(marks))
        messages.append(replace(message, images=images))
    return replace(prompt, messages=tuple(messages))
