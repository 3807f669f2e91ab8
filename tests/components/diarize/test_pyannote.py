"""pyannote.audio's real pipeline on what can be had offline: a true segmentation network (it lies
in WhisperX's wheel) and Resemblyzer's voices."""

from __future__ import annotations

import importlib.util
import os
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from motet.components.base import Setup
from motet.components.frames import MediaFile
from motet.components.transcription import parse_options


def folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


pytest.importorskip("lightning", reason="pyannote.audio needs it")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def diarizer(tmp_path_factory):
    os.environ["PYANNOTE_METRICS_ENABLED"] = "0"
    os.environ["HF_HUB_OFFLINE"] = "1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from pyannote.audio import Model
            from pyannote.audio.core.task import Problem, Resolution, Specifications
            from pyannote.audio.models.embedding import WeSpeakerResNet34
            from pyannote.audio.pipelines import SpeakerDiarization
            from pyannote.audio.pipelines.speaker_verification import BaseInference
        except (ImportError, OSError) as error:
            pytest.skip(f"pyannote.audio can't be imported: {error}")
        from motet.components.diarize.pyannote import PyannoteDiarizer
        from motet.components.diarize.voice import VoiceEncoder

        class Voices(BaseInference):
            """Resemblyzer's encoder in the place of an embedding model."""

            sample_rate, dimension, metric = 16_000, 256, "cosine"
            min_num_samples = 4800

            def __init__(self):
                self.encoder = VoiceEncoder()

            def to(self, device):
                return self

            def __call__(self, waveforms, masks=None):
                out = np.full((len(waveforms), 256), np.nan)
                for place, wave in enumerate(waveforms):
                    samples = wave.squeeze().numpy()
                    if masks is not None:
                        mask = masks[place].numpy() > 0.5
                        kept = np.repeat(mask, len(samples) // len(mask) + 1)[: len(samples)]
                        samples = samples[kept]
                    if len(samples) >= self.min_num_samples:
                        out[place] = self.encoder.voice((samples * 32767).astype(np.int16))
                return out

        checkpoint = folder_of("whisperx") / "assets" / "pytorch_model.bin"
        segmentation = Model.from_pretrained(str(checkpoint))
        segmentation.eval()
        stand_in = WeSpeakerResNet34()
        stand_in.specifications = Specifications(
            problem=Problem.REPRESENTATION,
            resolution=Resolution.CHUNK,
            duration=5.0,
            classes=["x", "y"],
        )
        stand_in.build()
        plda = tmp_path_factory.mktemp("plda")
        np.savez(
            plda / "xvec_transform.npz",
            mean1=np.zeros(256),
            mean2=np.zeros(128),
            lda=np.eye(256)[:, :128],
        )
        np.savez(plda / "plda.npz", mu=np.zeros(128), tr=np.eye(128), psi=np.linspace(3, 0.1, 128))
        pipeline = SpeakerDiarization(
            segmentation=segmentation,
            embedding=stand_in,
            plda=str(plda),
            clustering="AgglomerativeClustering",
            segmentation_step=0.5,
        )
        pipeline._embedding = Voices()
        pipeline.instantiate(
            {
                "segmentation": {"threshold": 0.45, "min_duration_off": 0.1},
                "clustering": {"method": "average", "min_cluster_size": 4, "threshold": 0.35},
            }
        )
        made = PyannoteDiarizer(Setup("diarize", options={"same_voice": 0.6}))
        made.use(pipeline)
    return made


def test_a_phone_call_has_two_speakers(diarizer):
    sample = folder_of("pyannote.audio") / "sample" / "sample.wav"
    options = {"min_speakers": 2, "max_speakers": 2}
    found = diarizer.diarize(MediaFile(str(sample)), parse_options(options), threading.Event())
    assert set(found.named.values()) == {"A", "B"}
    starts = [turn.start_s for turn in found.turns]
    assert starts == sorted(starts)
    assert 15 < sum(turn.end_s - turn.start_s for turn in found.turns) < 30


def test_it_stops_at_its_next_step(diarizer):
    sample = folder_of("pyannote.audio") / "sample" / "sample.wav"
    stop = threading.Event()
    stop.set()
    found = diarizer.diarize(MediaFile(str(sample)), parse_options({}), stop)
    assert found.turns == []
