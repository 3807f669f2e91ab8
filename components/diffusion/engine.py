"""Runs a batch of shots on one pipeline, in one thread: nothing of a run is left to the next."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...kernels.parallel import Group, agreed, agreed_sum
from ..errors import BadInput, ComponentFailed
from .boundary import Boundary, denoisers
from .branches import Parallel
from .caching import Hits, StepCache
from .call import arguments, defaults, from_image, makes_clips
from .decoding import Decoding, TilingOptions
from .faults import NotFinite, translated
from .options import DiffusionOptions
from .precision import Applied, Weights
from .preview import preview, previewable, to_pixels
from .rows import RowKey
from .shot import Made, Shot
from .skip import RowGuidance, Step
from .steps import Steps


class Gone(Exception):
    """Nobody waits for any shot of this run any more."""


@dataclass(frozen=True, slots=True)
class Lockstep:
    """This process as one of several that run the same shots at once.

    `world` are all of them; `share` those that hold parts of one denoiser call's tokens, `guided`
    those that share out the branches. `backend` is the attention that knows of the others.
    """

    world: Group
    share: Group | None = None
    guided: Group | None = None
    backend: str | None = None


class Engine:
    """A loaded pipeline; call it with the shots of one batch, all of one shape.

    Quantised `weights` are shared by all runs.
    """

    def __init__(
        self, pipe: Any, options: DiffusionOptions, threads: int, lockstep: Lockstep | None = None
    ) -> None:
        self.pipe = pipe
        self.defaults = defaults(pipe)
        self.clips = makes_clips(pipe)
        self.lockstep = lockstep
        self.options = options
        self.weights = Weights()
        self._threads = threads
        tiling = options.vae_tiling if isinstance(options.vae_tiling, TilingOptions) else None
        self.decoding = Decoding(pipe, tiling, lockstep.world if lockstep else None)
        self._from_image: Any = None

    def __call__(self, shots: list[Shot]) -> list[Made | BaseException]:
        """One result per shot: frames, or the error that is its own.

        A batch that fails as a whole is run again one by one, so that each shot gets its own fault.
        """
        torch.set_num_threads(self._threads)
        waiting = [shot for shot in shots if not shot.gone.is_set()]
        failed: Exception | None = None
        found: list[Made | BaseException] = []
        try:
            found = self._attempt(waiting) if waiting else []
        except Gone:
            pass
        except Exception as error:
            # Without its traceback, whose frames would hold the tensors of the run that failed.
            failed = error.with_traceback(None)
        if failed is not None:
            alone = len(waiting) == 1
            found = [translated(failed, waiting[0])] if alone else list(map(self._alone, waiting))
        made = {id(shot): result for shot, result in zip(waiting, found, strict=False)}
        gone = ComponentFailed("nobody waits for it any more")
        return [made.get(id(shot), gone) for shot in shots]

    def _alone(self, shot: Shot) -> Made | BaseException:
        if shot.gone.is_set():
            return ComponentFailed("nobody waits for it any more")
        try:
            return self._attempt([shot])[0]
        except Exception as error:
            return translated(error, shot)

    def _attempt(self, shots: list[Shot]) -> list[Made | BaseException]:
        try:
            return Run(self, shots).made()
        finally:
            self.pipe.maybe_free_model_hooks()
            if torch.cuda.is_available():
                gc.collect()
                torch.cuda.empty_cache()

    def pipe_for(self, shot: Shot) -> Any:
        """The pipeline, or the one on its weights that starts from a picture."""
        if shot.image is None:
            return self.pipe
        if self._from_image is None:
            self._from_image = from_image(self.pipe)
        return self._from_image


class Run:
    """One call of the pipeline for some shots, and all the state that it has."""

    def __init__(self, engine: Engine, shots: Sequence[Shot]) -> None:
        self._engine = engine
        self._lockstep = engine.lockstep
        self._shots = shots
        self._pipe = engine.pipe_for(shots[0])
        self._rows = [RowGuidance(shot.guidance_skip) for shot in shots]
        self._steps = Steps(self._pipe.scheduler, self._stepped)
        self._broken: dict[int, int] = {}
        self._caches: list[StepCache] = []
        self._started = time.monotonic()
        if any(shot.previews for shot in shots) and not previewable(self._pipe):
            name = type(self._pipe).__name__
            raise BadInput(f"{name} has no previews", where="previews", param="partial_images")

    def made(self) -> list[Made | BaseException]:
        """Run the pipeline."""
        call = arguments(self._pipe, self._shots, self._engine.options.call)
        watchers: list[Any] = [self]
        with ExitStack() as stack:
            for watcher in self._watchers():
                watchers.append(watcher)
                stack.enter_context(watcher.attached())
            boundary = Boundary(
                self._pipe,
                self._rows,
                self._steps,
                watchers=watchers,
                share=self._lockstep.world if self._lockstep else None,
                parallel=self._parallel(),
            )
            stack.enter_context(boundary.attached())
            stack.enter_context(self._engine.decoding.attached())
            output = self._pipe(**call)
        frames = output.frames if makes_clips(self._pipe) else output.images
        hits = self._hits()
        return [self._result(row, frames[row], hits[row]) for row in range(len(self._shots))]

    def before(self, step: Step, rows: Sequence[RowKey]) -> None:
        """Stop before the next denoiser call when nobody waits any more."""
        del step, rows
        gone = all(shot.gone.is_set() for shot in self._shots)
        if self._lockstep is not None:
            gone = agreed(gone, self._lockstep.world, "any", self._device)
        if gone:
            raise Gone

    def _watchers(self) -> list[Any]:
        policy = self._engine.options.precision
        found: list[Any] = []
        for denoiser in denoisers(self._pipe):
            if any(shot.cache for shot in self._shots):
                options = [shot.cache for shot in self._shots]
                share = self._lockstep.share if self._lockstep else None
                cache = StepCache(denoiser, options, share=share)
                self._caches.append(cache)
                found.append(cache)
            if policy is not None:
                base = self._lockstep.backend if self._lockstep else None
                found.append(Applied(policy, denoiser, self._engine.weights, base=base))
        return found

    def _parallel(self) -> Parallel | None:
        """Both branches over ranks; where something is cached, each row stays on its rank."""
        return Parallel(group, steady=bool(self._caches)) if (group := self._guided) else None

    @property
    def _guided(self) -> Group | None:
        return self._lockstep.guided if self._lockstep else None

    @property
    def _device(self) -> torch.device:
        return torch.device(self._engine.options.device)

    def _stepped(self, step: Step, latents: Tensor, goal: Tensor) -> None:
        self.before(step, ())
        for row in range(len(self._shots)):
            if row not in self._broken and not bool(torch.isfinite(latents[row]).all()):
                self._broken[row] = step.index
        if len(self._broken) == len(self._shots):
            raise NotFinite(step.index)
        done = step.index + 1
        for shot in self._shots:
            shot.on_step(done, step.total)
        self._preview(step, goal)

    def _preview(self, step: Step, goal: Tensor) -> None:
        due = {
            row: numbers.index(step.index)
            for row, shot in enumerate(self._shots)
            if step.index in (numbers := preview_steps(shot.previews, step.total))
        }
        if not due:
            return
        shape = self._shots[0].shape
        height, width = size_of(self._pipe, shape.height, shape.width)
        pictures = preview(self._pipe, goal, height, width, shape.frames or 1)
        for row, number in due.items():
            self._shots[row].on_preview(number, pictures[row])

    def _result(self, row: int, frames: Tensor, hits: Hits) -> Made | BaseException:
        shot = self._shots[row]
        if row in self._broken:
            return translated(NotFinite(self._broken[row]), shot)
        if not bool(torch.isfinite(frames).all()):
            return translated(NotFinite(None), shot)
        pixels = to_pixels(frames if frames.dim() == 4 else frames[None])
        spent = self._rows[row].spent
        meta: dict[str, Any] = {
            "seed": shot.seed,
            "steps": self._steps.total,
            "prompt_tokens": prompt_tokens(self._pipe, shot.prompt),
            "rows_total": spent.rows_total,
            "rows_saved": spent.rows_saved,
            "blocks_total": hits.blocks_total,
            "blocks_saved": hits.blocks_total - hits.blocks_run,
            "cache_hits": hits.calls_kept,
            "batch": len(self._shots),
            "ms": round((time.monotonic() - self._started) * 1000, 1),
        }
        return Made(pixels, meta)

    def _hits(self) -> list[Hits]:
        """What was kept of each picture, on all ranks that had rows of it."""
        counts = torch.zeros(len(self._shots), 3, dtype=torch.int64, device=self._device)
        for cache in self._caches:
            own = [(one.blocks_run, one.blocks_total, one.calls_kept) for one in cache.hits]
            counts += torch.tensor(own, device=self._device)
        if self._caches and self._guided:
            counts = agreed_sum(counts, self._guided)
        return [Hits(*(int(count) for count in row)) for row in counts]


def prompt_tokens(pipe: Any, prompt: str) -> int:
    """How many tokens a prompt has, as the pipeline's first tokenizer counts; 0 without one."""
    tokenizer = getattr(pipe, "tokenizer", None)
    return 0 if tokenizer is None else len(tokenizer(prompt, truncation=True)["input_ids"])


def preview_steps(count: int, total: int) -> list[int]:
    """The steps after which `count` previews are due, evenly spread, never the last."""
    places = [(number + 1) * total // (count + 1) - 1 for number in range(count)]
    return [place for place in dict.fromkeys(places) if 0 <= place < total - 1]


def size_of(pipe: Any, height: int | None, width: int | None) -> tuple[int, int]:
    """The size in pixels that a run without one has."""
    if height is not None and width is not None:
        return height, width
    sample = int(getattr(pipe, "default_sample_size", 64)) * int(pipe.vae_scale_factor)
    return height or sample, width or sample
