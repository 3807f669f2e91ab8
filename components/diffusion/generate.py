"""What `diffusion/image` and `diffusion/video` share: requests to shots, shots to frames."""

from __future__ import annotations

import asyncio
import math
import secrets
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from PIL import Image as pictures

from ..base import Component, Context, Setup
from ..batching import Batcher
from ..errors import BadInput
from ..frames import Control, Frame, Generate, Image, MediaFile, Progress
from ..models import lacking
from ..pixels import decode
from ..requestoptions import checked
from .caching import CacheOptions
from .engine import Engine
from .load import DEFAULT_MODEL, load_pipeline
from .options import DiffusionOptions, RequestOptions
from .ranks import Ranks
from .shot import Made, Pixels, Shape, Shot

_MAX_PROMPT = 32_000
_MAX_PREVIEWS = 16
DEFAULT_FPS = 8.0


@dataclass(slots=True)
class _News:
    """What a run has to say on the way. Written on the loop, from the engine's thread's calls."""

    done: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    images: deque[Image] = field(default_factory=lambda: deque(maxlen=256))
    fresh: asyncio.Event = field(default_factory=asyncio.Event)

    def progress(self) -> Progress:
        """All pictures' steps as one number."""
        done = sum(one for one, _ in self.done.values())
        total = sum(one for _, one in self.done.values())
        return Progress(done, total, f"step {done} of {total}")


class Generator(Component):
    """Base of the two: a diffusers pipeline behind a batcher."""

    accepts = (Generate,)
    options = DiffusionOptions
    clips: ClassVar[bool]
    """Whether a request without `frames` asks for a clip."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._options = DiffusionOptions.model_validate(dict(setup.options))
        self._engine: Engine | Ranks | None = None
        self._batcher: Batcher[Shot, Made] | None = None

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        loras = DiffusionOptions.model_validate(dict(setup.options)).lora
        use = "diffusion/video" if cls.clips else "diffusion/image"
        return [
            *lacking(setup.model or DEFAULT_MODEL, use, "model_index.json"),
            *(lack for lora in loras for lack in lacking(lora.model)),
        ]

    @classmethod
    def refuse(cls, setup: Setup, asked: MediaFile | Generate) -> None:
        """Refuse what the options alone tell; the model's own sizes and lengths are within them."""
        if isinstance(asked, Generate):
            file = DiffusionOptions.model_validate(dict(setup.options))
            checked(RequestOptions, asked.options, where="options")
            width, height = asked.width or file.width, asked.height or file.height
            frames = asked.frames if cls.clips else None
            steps, strength = asked.steps or file.steps, asked.strength
            shape = Shape(width, height, frames, asked.fps, steps, asked.guidance, strength)
            cls._check(file, asked, shape)

    async def load(self) -> None:
        self._engine = await asyncio.to_thread(self._made)
        if self.clips and not self._engine.clips:
            raise BadInput("this model makes no clips", where=self.setup.node)
        self._batcher = Batcher(
            self._engine,
            size=1 if self.clips else self._options.max_batch,
            window_ms=0.0 if self.clips else self._options.window_ms,
            bound=self._options.max_waiting,
            name=self.setup.node,
            # Models distilled with guidance run otherwise where anyone brings a negative prompt.
            key=lambda shot: (shot.shape, shot.image is None, bool(shot.negative)),
        )

    def _made(self) -> Engine | Ranks:
        model, threads = self.setup.model, self.setup.resources.threads
        if self._options.parallel.ranks > 1:
            return Ranks(model, self._options, threads)
        return Engine(load_pipeline(model, self._options), self._options, threads)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            if isinstance(frame, Generate):
                async with aclosing(self._answer(frame, context)) as answers:
                    async for made in answers:
                        yield made
            elif isinstance(frame, Control):
                yield frame

    async def _answer(self, asked: Generate, context: Context) -> AsyncGenerator[Frame]:
        """Progress and previews as they come, then the results, in order."""
        batcher, engine = self.loaded(self._batcher), self.loaded(self._engine)
        context.check(where=self.setup.node)
        plan, news = await self._plan(asked, engine), _News()
        shots = self._shots(asked, plan, news)
        tasks = [asyncio.ensure_future(batcher(shot)) for shot in shots]
        for task in tasks:
            task.add_done_callback(lambda _: news.fresh.set())
        try:
            while not all(task.done() for task in tasks):
                await news.fresh.wait()
                news.fresh.clear()
                while news.images:
                    yield news.images.popleft()
                yield news.progress()
                for task in tasks:
                    if task.done():
                        task.result()
            for index, task in enumerate(tasks):
                yield self._result(task.result(), index, plan.shape)
        finally:
            # The engine looks at `gone` before each denoiser call; the caller doesn't wait for it.
            for shot, task in zip(shots, tasks, strict=True):
                shot.gone.set()
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _plan(self, asked: Generate, engine: Engine | Ranks) -> Shot:
        """What the pictures of a request have in common."""
        own = checked(RequestOptions, asked.options, where="options")
        cache = None if own.cache is False else own.cache or self._options.cache
        shape = self._shape(asked, engine, own, cache)
        picture = None
        if asked.image is not None:
            picture = await asyncio.to_thread(picture_of, asked.image, shape)
        skip = own.guidance_skip or self._options.guidance_skip
        return Shot(asked.prompt, asked.negative_prompt, 0, shape, skip, cache, picture)

    def _shots(self, asked: Generate, plan: Shot, news: _News) -> list[Shot]:
        """A shot for each picture, like `plan`, with a seed of its own."""
        first = secrets.randbelow(2**31) if asked.seed is None else asked.seed
        loop = asyncio.get_running_loop()
        shots: list[Shot] = []
        for index in range(asked.count):
            seed = (first + index) % 2**63
            shot = replace(plan, seed=seed, previews=asked.previews, gone=threading.Event())
            news.done[index] = (0, plan.shape.steps or 0)

            def stepped(done: int, total: int, index: int = index) -> None:
                loop.call_soon_threadsafe(_note, news, index, done, total)

            def previewed(number: int, pixels: Pixels, index: int = index) -> None:
                image = Image(pixels, index, True, {"preview": number})
                loop.call_soon_threadsafe(_show, news, image)

            shot.on_step, shot.on_preview = stepped, previewed
            shots.append(shot)
        return shots

    def _shape(
        self,
        asked: Generate,
        engine: Engine | Ranks,
        own: RequestOptions,
        cache: CacheOptions | None,
    ) -> Shape:
        """What the request, the pipeline file and the pipeline say, in this order; checked."""
        file, known = self._options, engine.defaults
        frames, fps = self._timing(asked, own, known)
        steps = asked.steps or file.steps or known.get("num_inference_steps")
        if steps and not asked.steps:
            steps = min(max(1, round(steps * own.effort)), file.max_steps)
        strength = file.strength if asked.strength is None else asked.strength
        shape = Shape(
            width=asked.width or file.width or known.get("width"),
            height=asked.height or file.height or known.get("height"),
            frames=frames if engine.clips else None,
            fps=fps,
            steps=steps,
            guidance=file.guidance if asked.guidance is None else asked.guidance,
            strength=None if asked.image is None else strength,
            insisted=asked.strength is not None,
            cache_kind=None if cache is None else cache.kind,
        )
        self._check(file, asked, shape)
        return shape

    def _timing(
        self, asked: Generate, own: RequestOptions, known: Mapping[str, Any]
    ) -> tuple[int, float]:
        """Frames and frames per second."""
        fps = asked.fps or self._options.fps or DEFAULT_FPS
        if not self.clips:
            if own.seconds is not None:
                raise BadInput("pictures have no length", where="seconds", param="seconds")
            return 1, fps
        if own.seconds is None:
            return asked.frames or self._options.frames or int(known["num_frames"]), fps
        frames = asked.frames or min(max(1, round(own.seconds * fps)), self._options.max_frames)
        return frames, frames / own.seconds

    @classmethod
    def _check(cls, file: DiffusionOptions, asked: Generate, shape: Shape) -> None:
        """Raises `BadInput` with everything that is out of bounds."""
        pixels = (shape.width or 0) * (shape.height or 0)
        limits = (
            ("count", asked.count, 1, file.max_count),
            ("steps", shape.steps or 1, 1, file.max_steps),
            ("frames", shape.frames or 1, 1, file.max_frames),
            ("previews", asked.previews, 0, _MAX_PREVIEWS),
            ("seed", asked.seed or 0, 0, 2**63 - 1),
            ("width", shape.width or 16, 16, file.max_pixels // 16),
            ("height", shape.height or 16, 16, file.max_pixels // 16),
        )
        flaws = [
            (name, f"{name} must be {low} to {high}, got {value}")
            for name, value, low, high in limits
            if not low <= value <= high
        ]
        if pixels > file.max_pixels:
            side = math.isqrt(file.max_pixels)
            text = (
                f"{shape.width}x{shape.height} is more than the {file.max_pixels} pixels that this"
                f" pipeline allows; possible: up to {side}x{side}, or no size for the model's own"
            )
            flaws.append(("size", text))
        if not asked.prompt.strip():
            flaws.append(("prompt", "a prompt is needed"))
        if len(asked.prompt) + len(asked.negative_prompt or "") > _MAX_PROMPT:
            flaws.append(("prompt", f"a prompt has at most {_MAX_PROMPT} characters"))
        if not cls.clips and (asked.frames or 1) > 1:
            flaws.append(("frames", "this makes pictures, not clips"))
        if shape.strength is not None and not 0 < shape.strength <= 1:
            flaws.append(("strength", f"strength must be over 0, up to 1, got {shape.strength}"))
        if shape.guidance is not None and not 0 <= shape.guidance <= 100:
            flaws.append(("guidance", f"guidance must be 0 to 100, got {shape.guidance}"))
        if flaws:
            said = "; ".join(text for _, text in flaws)
            raise BadInput(said, where="generate", param=flaws[0][0])

    @abstractmethod
    def _result(self, made: Made, index: int, shape: Shape) -> Frame:
        """The frame that carries what was made."""

    async def close(self) -> None:
        if self._batcher is not None:
            await self._batcher.close()
        if isinstance(self._engine, Ranks):
            await asyncio.to_thread(self._engine.close)
        self._batcher = self._engine = None

    def utilisation(self) -> float | None:
        """1 while something waits for the engine."""
        return None if self._batcher is None else float(self._batcher.waiting > 0)


def _note(news: _News, index: int, done: int, total: int) -> None:
    news.done[index] = (done, total)
    news.fresh.set()


def _show(news: _News, image: Image) -> None:
    news.images.append(image)
    news.fresh.set()


def picture_of(data: bytes, shape: Shape) -> pictures.Image:
    """The picture to start from, in the size of the result. Blocks.

    Raises:
        BadInput: it is no picture, or a huge one.
    """
    plain = pictures.fromarray(decode(data, param="image"))
    if shape.width is None or shape.height is None:
        return plain
    return plain.resize((shape.width, shape.height), pictures.Resampling.LANCZOS)
