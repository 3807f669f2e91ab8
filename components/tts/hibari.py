"""English speech at 24 kHz from Hibari, whose default voice is inside its package."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from hibari import Hibari  # pyright: ignore[reportMissingTypeStubs]
from hibari.voices import (  # pyright: ignore[reportMissingTypeStubs]
    VOICES,
    cache_dir,
)

from ..audio import Floats
from ..base import Setup
from ..errors import MissingRequirement
from ..onnx import sleeping
from .speaker import Speaker

DEFAULT_VOICE = "heart"


class HibariTts(Speaker):
    """Hibari: some 100 times faster than real time on one core, voices of 8 MB each.

    The node's `model:` is a voice ("heart" by default), or the path of a voice's ONNX file. The
    other voices are used where they lie in Hibari's cache (HIBARI_HOME); nothing is downloaded.
    Speeds beyond 0.5 to 1.5 are reached by stretching: what the model speaks
    faster than that is longer than asked for.
    """

    rate_hz = 24000
    speeds = (0.5, 1.5)
    gain_db = 6.0

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._loaded: dict[str, Any] = {}

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        model = setup.model
        if model is None or model in available() or Path(model).expanduser().is_file():
            return []
        return [f"voice {model!r} is not here; possible: {', '.join(available())}, or an ONNX file"]

    def voices(self) -> list[str]:
        model = self.setup.model or DEFAULT_VOICE
        return [model, *(voice for voice in available() if voice != model)]

    def languages(self) -> list[str]:
        """The voices' languages, as "en-US", the default voice's first."""
        known = (VOICES[voice]["language"] for voice in self.voices() if voice in VOICES)
        return list(dict.fromkeys(known)) or ["en"]

    def open(self) -> None:
        """Load the default voice.

        Raises:
            MissingRequirement: its file isn't here.
        """
        lacks = self.requirements(self.setup)
        if lacks:
            raise MissingRequirement(lacks[0], where=self.setup.node)
        self._voice(self.voices()[0])

    def synthesize(self, text: str, voice: str, speed: float) -> Floats:
        return cast(Floats, self._voice(voice)(text, speed=speed))

    def _voice(self, name: str) -> Any:
        """A voice's model, loaded when it is first spoken with."""
        if name not in self._loaded:
            threads = self.setup.resources.threads
            if name in VOICES:
                engine: Any = Hibari(voice=name)
            else:
                engine = Hibari(model=str(Path(name).expanduser()))
            # Its own session would let its threads spin.
            engine.sess = sleeping(Path(engine.model_path), threads)
            self._loaded[name] = engine
        return self._loaded[name]

    async def close(self) -> None:
        await super().close()
        self._loaded.clear()


def available() -> list[str]:
    """The voices whose files are here, the one in the package first."""
    voices = cast("dict[str, dict[str, Any]]", VOICES)
    folder = cache_dir()
    return [
        name
        for name, facts in voices.items()
        if facts.get("bundled") or os.path.exists(os.path.join(folder, facts["file"]))
    ]
