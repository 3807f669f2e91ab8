"""Who spoke when, offline: VAD windows, voice embeddings, spectral clustering."""

from __future__ import annotations

import threading
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ..base import Options, Setup
from ..errors import BadInput, MissingRequirement
from ..frames import MediaFile, Samples
from ..media_read import MediaReader
from ..mel import RATE_HZ
from ..models import lacking
from ..speech import WINDOW, SileroModel, Span, SpanFinder, SpanRules, SpeechStream, speech_model
from ..transcription import TranscribeOptions
from .diarizer import Diarization, Diarizer
from .label import names
from .spectral import SpeakerCount, cluster
from .turns import WindowRules, bounds, timeline
from .vectors import unit, weights_path

if TYPE_CHECKING:
    from .voice import VoiceEncoder

_BLOCK_S = 10.0
_LONGEST_REFERENCE_S = 30
_LONGEST_WINDOWS = 940


class ClusterOptions(Options):
    """How the pipeline file tunes diarization.

    Windows of `window_s` each `hop_s` are compared; voices closer than `merge_above` (cosine) are
    one speaker; `bridge_s` is the longest pause that stays inside a turn.
    """

    window_s: float = Field(1.0, ge=0.2, le=1.6)
    hop_s: float = Field(0.2, ge=0.05, le=5)
    bridge_s: float = Field(0.6, ge=0, le=10)
    merge_above: float = Field(0.9, gt=0, le=1)
    vad: str = "silero-vad"


class ClusterDiarizer(Diarizer):
    """Windows of speech, a voice for each, clusters of voices; see `Diarizer`."""

    options = ClusterOptions

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._options = ClusterOptions.model_validate(dict(setup.options))
        self._rules = WindowRules(
            self._options.window_s, self._options.hop_s, self._options.bridge_s
        )
        self._encoder: VoiceEncoder | None = None
        self._vad: SileroModel | None = None

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        """The weights that aren't installed."""
        missing = lacking(ClusterOptions.model_validate(dict(setup.options)).vad)
        try:
            weights_path()
        except MissingRequirement as error:
            missing.append(error.message)
        return missing

    def open(self) -> None:
        """Read both networks; they take 20 MB."""
        from .voice import VoiceEncoder  # torch comes with it, and only if it's asked for

        self._encoder = VoiceEncoder(threads=self.setup.resources.threads)
        self._vad = speech_model(self._options.vad)

    def diarize(
        self, file: MediaFile, options: TranscribeOptions, stop: threading.Event
    ) -> Diarization:
        """Read a whole file and tell its voices apart; blocking, ends early once `stop` is set."""
        if self._encoder is None or self._vad is None:
            raise RuntimeError(f"{self.setup.node} is not loaded")
        known = {name: self._reference(name, path) for name, path in options.known_speakers.items()}
        work = _Windows(self._encoder, self._vad, self._rules)
        for block in MediaReader(file.path, name=file.name, block_s=_BLOCK_S):
            if stop.is_set():
                return Diarization([], {})
            work.push(block[0])
        work.push(np.zeros(0, np.int16), last=True)
        if not work.windows:
            return Diarization([], {})
        vectors = np.concatenate(work.vectors)
        count = SpeakerCount(options.min_speakers, options.max_speakers)
        centroids = cluster(vectors, count, self._options.merge_above)
        turns = timeline(work.windows, vectors @ centroids.T, work.spans, self._rules)
        return Diarization(turns, names(turns, centroids, known))

    async def close(self) -> None:
        await super().close()
        self._encoder = self._vad = None

    def _reference(self, name: str, path: str) -> NDArray[np.float32]:
        """The voice of a known speaker."""
        assert self._encoder is not None
        reader = MediaReader(path, name=f"known speaker {name!r}", block_s=1.0)
        # One block more than may be, so that a long recording isn't read to its end.
        pcm = np.concatenate([block[0] for block in islice(reader, _LONGEST_REFERENCE_S + 1)])
        seconds = len(pcm) / RATE_HZ
        if not 1.0 <= seconds <= _LONGEST_REFERENCE_S:
            much = "longer" if seconds > _LONGEST_REFERENCE_S else f"{seconds:.1f} s long"
            raise BadInput(
                f"the recording of known speaker {name!r} is {much};"
                f" 1 to {_LONGEST_REFERENCE_S} s are possible, 2 to 10 do",
                param="known_speaker_references",
            )
        return self._encoder.voice(pcm)


class _Windows:
    """Spans, windows and their voices, of a recording as it is read."""

    def __init__(self, encoder: VoiceEncoder, vad: SileroModel, rules: WindowRules) -> None:
        self.windows: list[tuple[int, int]] = []
        self.vectors: list[NDArray[np.float32]] = []
        self.spans: list[Span] = []
        self._encoder = encoder
        self._rules = rules
        self._speech = SpeechStream(vad)
        self._finder = SpanFinder(SpanRules(shortest_speech=6, longest=_LONGEST_WINDOWS))
        self._pcm = np.zeros(0, np.int16)
        self._base = 0

    def push(self, pcm: Samples, *, last: bool = False) -> None:
        """Take the next samples; embeds the speech that ended with them."""
        self._pcm = np.concatenate([self._pcm, pcm])
        probabilities = self._speech.push(pcm, last=last).tolist()
        spans = list(self._finder.push(probabilities))
        if last:
            spans += self._finder.finish()
        for span in spans:
            self._embed(span)
        since = self._finder.open_since
        keep = (self._finder.place if since is None else since) * WINDOW - RATE_HZ
        if keep > self._base:
            self._pcm = self._pcm[keep - self._base :].copy()
            self._base = keep

    def _embed(self, span: Span) -> None:
        found = bounds(span, self._rules, self._base + len(self._pcm))
        pieces = [self._pcm[low - self._base : high - self._base] for low, high in found]
        self.vectors.append(unit(self._encoder.embed(pieces)))
        self.windows += found
        self.spans.append(span)
