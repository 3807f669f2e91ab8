"""A pipeline on several processes that run each batch in step; this side starts and feeds them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing import Pipe
from typing import TYPE_CHECKING, Any, cast

from ..errors import ComponentFailed, MotetError, error_of
from .options import DiffusionOptions
from .shot import Made, Pixels, Shot

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    Line = Connection[Any, Any]

_START_S = 600.0
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Order:
    """A batch, as it goes to every rank: shots without their callbacks."""

    shots: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Left:
    """Nobody waits for this shot of the batch any more; goes to the first rank only."""

    row: int


@dataclass(frozen=True, slots=True)
class Hello:
    """A rank has loaded: the defaults of its pipeline's call."""

    defaults: dict[str, Any]
    clips: bool


@dataclass(frozen=True, slots=True)
class Stepped:
    """Progress of a shot."""

    row: int
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Previewed:
    """A preview of a shot."""

    row: int
    number: int
    pixels: Pixels


@dataclass(frozen=True, slots=True)
class Refused:
    """What became of a shot, or of the loading, instead: an error's code and text."""

    code: str
    message: str


class Ranks:
    """Stands where an `Engine` does. Processes that fail are started anew for the next batch."""

    def __init__(self, model: str | None, options: DiffusionOptions, threads: int) -> None:
        self.defaults: dict[str, Any] = {}
        self.clips = False
        self._model = model
        self._options = options
        self._threads = max(1, threads // options.parallel.ranks)
        self._children: list[subprocess.Popen[bytes]] = []
        self._lines: list[Line] = []
        self._start()

    def __call__(self, shots: list[Shot]) -> list[Made | BaseException]:
        """One result per shot; a rank that breaks fails the batch and ends the others."""
        try:
            if not self._children:
                self._start()
            found = self._run(shots)
        except MotetError as error:
            self.close()
            return [error] * len(shots)
        except (OSError, EOFError) as error:
            self.close()
            failed = ComponentFailed(f"a process of this model broke ({type(error).__name__})")
            return [failed] * len(shots)
        if any(isinstance(one, ComponentFailed) for one in found):
            # What failed on one rank may have left another in the middle of a step.
            self.close()
        return found

    def _start(self) -> None:
        """Start the processes and wait until all have loaded.

        Raises:
            MotetError: one can't load, or dies.
        """
        try:
            # The place where they find each other must last until every one has.
            with tempfile.TemporaryDirectory(prefix="motet-ranks-") as folder:
                for rank in range(self._options.parallel.ranks):
                    self._launch(rank, f"{folder}/world")
                for line in self._lines:
                    line.send((self._model, self._options, self._threads))
                deadline_s = time.monotonic() + _START_S
                for line in self._lines:
                    self._greet(line, deadline_s)
        except (OSError, EOFError) as error:
            self.close()
            raise ComponentFailed("a process of this model died as it loaded") from error
        except BaseException:
            self.close()
            raise

    def _launch(self, rank: int, world: str) -> None:
        ours, theirs = Pipe()
        self._lines.append(cast("Line", ours))
        with theirs:
            place = theirs.fileno()
            command = [sys.executable, "-m", f"{__package__}.rankchild", str(place)]
            child = subprocess.Popen([*command, str(rank), world], pass_fds=[place])
            self._children.append(child)

    def _greet(self, line: Line, deadline_s: float) -> None:
        while not line.poll(_LOOK_S):
            self._check(deadline_s)
        hello = line.recv()
        if isinstance(hello, Refused):
            raise error_of(hello.code, hello.message)
        self.defaults, self.clips = hello.defaults, hello.clips

    def _check(self, deadline_s: float) -> None:
        dead = [rank for rank, child in enumerate(self._children) if child.poll() is not None]
        if dead:
            raise ComponentFailed(f"process {dead[0]} of this model has died")
        if time.monotonic() > deadline_s:
            raise ComponentFailed("the processes of this model don't answer")

    def _run(self, shots: list[Shot]) -> list[Made | BaseException]:
        order = Order(tuple(plain(shot) for shot in shots))
        for line in self._lines:
            line.send(order)
        left: set[int] = set()
        # Each step must come within the limit; a batch may take as many steps as it likes.
        deadline_s = time.monotonic() + self._options.parallel.timeout_s + 30
        while True:
            for row, shot in enumerate(shots):
                if shot.gone.is_set() and row not in left:
                    left.add(row)
                    self._lines[0].send(Left(row))
            if not self._lines[0].poll(_LOOK_S):
                self._check(deadline_s)
                continue
            said = self._lines[0].recv()
            deadline_s = time.monotonic() + self._options.parallel.timeout_s + 30
            if isinstance(said, Stepped):
                shots[said.row].on_step(said.done, said.total)
            elif isinstance(said, Previewed):
                shots[said.row].on_preview(said.number, said.pixels)
            else:
                return [
                    error_of(one.code, one.message) if isinstance(one, Refused) else one
                    for one in said
                ]

    def close(self) -> None:
        """End the processes. Idempotent."""
        for line in self._lines:
            line.close()
        for child in self._children:
            child.terminate()
        for child in self._children:
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._children, self._lines = [], []


def plain(shot: Shot) -> dict[str, Any]:
    """What of a shot can travel."""
    names = ("prompt", "negative", "seed", "shape", "guidance_skip", "cache", "image", "previews")
    return {name: getattr(shot, name) for name in names}


def rank_options(options: DiffusionOptions, rank: int) -> DiffusionOptions:
    """The options of one rank: on CUDA each has a device of its own."""
    if options.device.split(":")[0] != "cuda":
        return options
    return options.model_copy(update={"device": f"cuda:{rank}"})
