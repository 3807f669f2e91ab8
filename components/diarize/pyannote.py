"""Who spoke when, by pyannote.audio's own pipeline, for whoever has its weights."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from ..base import Options, Setup
from ..errors import BadInput, MissingRequirement
from ..frames import MediaFile
from ..media_read import MediaReader
from ..mel import RATE_HZ
from ..models import lacking
from ..transcription import TranscribeOptions
from .diarizer import Diarization, Diarizer
from .label import names
from .turns import Turn
from .vectors import unit

# Nothing about the files goes to anybody; pyannote.audio reads this when it is imported.
os.environ.setdefault("PYANNOTE_METRICS_ENABLED", "0")

DEFAULT = "pyannote/speaker-diarization-community-1"
_BLOCK_S = 30.0


class PyannoteOptions(Options):
    """How the pipeline file tunes it.

    `exclusive` takes the diarization in which one speaker is active at a time, which fits words
    best. The whole file is held in memory as pyannote wants it, 230 MB an hour: `longest_h`.
    """

    device: str = "cpu"
    exclusive: bool = True
    longest_h: float = Field(4.0, gt=0, le=48)
    same_voice: float = Field(0.5, gt=0, le=1)


class PyannoteDiarizer(Diarizer):
    """`model:` is a pipeline's folder or hub id (with HF_TOKEN's token); see `Diarizer`."""

    options = PyannoteOptions

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._options = PyannoteOptions.model_validate(dict(setup.options))
        self._model = setup.model or DEFAULT
        self._pipeline: Any = None
        self._lock = threading.Lock()

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        return lacking(setup.model, "diarize/pyannote") if setup.model else []

    def open(self) -> None:
        """Read the pipeline's weights.

        Raises:
            MissingRequirement: it isn't there, or its licence was not accepted.
        """
        from pyannote.audio import Pipeline  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

        torch.set_num_threads(self.setup.resources.threads)
        repo, _, revision = self._model.partition("@")
        try:
            made = cast("Any", Pipeline).from_pretrained(
                repo if not Path(repo).exists() else Path(repo),
                revision=revision or None,
                token=os.environ.get("HF_TOKEN"),
            )
        except (OSError, ValueError) as error:
            raise MissingRequirement(
                f"{self._model!r} can't be had ({type(error).__name__}): give a folder with its"
                " weights, or accept its licence on the hub and set HF_TOKEN",
                where=self.setup.node,
            ) from error
        if made is None:
            raise MissingRequirement(
                f"{self._model!r} is closed to you: accept its licence on the hub, set HF_TOKEN",
                where=self.setup.node,
            )
        self.use(made)

    def use(self, pipeline: Any) -> None:
        """Take a pipeline that was made elsewhere."""
        pipeline.to(torch.device(self._options.device))
        self._pipeline = pipeline

    def diarize(
        self, file: MediaFile, options: TranscribeOptions, stop: threading.Event
    ) -> Diarization:
        """Run the pipeline on a whole file; `stop` ends it at its next step."""
        low, high = options.min_speakers, options.max_speakers
        bounds = {"min_speakers": low, "max_speakers": high}
        if low == high:
            bounds = {"num_speakers": low}
        try:
            annotation, voices, labels = self._run(file.path, file.name, bounds, stop)
            known = {
                name: self._voice(name, path, stop) for name, path in options.known_speakers.items()
            }
        except _Stopped:
            return Diarization([], {})
        turns = [
            Turn(round(segment.start, 3), round(segment.end, 3), labels.index(label))
            for segment, _, label in annotation.itertracks(yield_label=True)
        ]
        turns.sort(key=lambda turn: turn.start_s)
        return Diarization(turns, names(turns, voices, known, self._options.same_voice))

    async def close(self) -> None:
        await super().close()
        self._pipeline = None

    def _run(
        self, path: str, name: str, bounds: dict[str, int], stop: threading.Event
    ) -> tuple[Any, NDArray[np.float32], list[str]]:
        """The annotation of a file, its voices (speakers, dim), and its labels."""
        limit_s = self._options.longest_h * 3600
        reader = MediaReader(path, name=name, block_s=_BLOCK_S, limit_s=limit_s)
        pcm = np.concatenate([block[0] for block in reader])
        waveform = torch.tensor(pcm.astype(np.float32) / 32768)[None]

        def hook(*step: object, **facts: object) -> None:
            del step, facts
            if stop.is_set():
                raise _Stopped

        with self._lock:
            output = self._pipeline(
                {"waveform": waveform, "sample_rate": RATE_HZ, "uri": "file"}, hook=hook, **bounds
            )
        whole = output.speaker_diarization
        exclusive = getattr(output, "exclusive_speaker_diarization", None)
        annotation = exclusive if self._options.exclusive and exclusive is not None else whole
        voices = np.asarray(output.speaker_embeddings, np.float32)
        return annotation, unit(np.nan_to_num(voices)), list(whole.labels())

    def _voice(self, name: str, path: str, stop: threading.Event) -> NDArray[np.float32]:
        """The voice of a known speaker's recording."""
        _, voices, labels = self._run(path, f"known speaker {name!r}", {"num_speakers": 1}, stop)
        if not labels:
            raise BadInput(
                f"nobody speaks in the recording of known speaker {name!r}",
                param="known_speaker_references",
            )
        return voices[0]


class _Stopped(Exception):
    """The request was cancelled."""
