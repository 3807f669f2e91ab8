"""Speaker embeddings: the GE2E encoder of Resemblyzer over 40 mel bands (Wan et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..frames import Samples
from ..mel import FFT, HOP, RATE_HZ, filterbank
from ..silero import as_floats
from .vectors import unit, weights_path

Floats = NDArray[np.float32]

DIM = 256
WINDOW_S = 1.6
_BANDS = 40
_FRAMES = 160
_BATCH = 64


def mel_power(pcm: Samples | Floats) -> Floats:
    """Mel power of a signal, frames of 25 ms each 10 ms, centred: (1 + samples // 160, bands)."""
    padded = np.pad(as_floats(pcm), FFT // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP]
    taper = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT) / FFT)).astype(np.float32)
    power = np.abs(np.fft.rfft(frames * taper, axis=1)) ** 2
    return (power @ filterbank(_BANDS).T).astype(np.float32)


class _Encoder(nn.Module):
    """Three LSTM layers and a projection; the names are those of the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(_BANDS, DIM, 3, batch_first=True)
        self.linear = nn.Linear(DIM, DIM)

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        """Unit vectors (batch, 256) of mels (batch, frames, 40)."""
        hidden = cast("torch.Tensor", self.lstm(mels)[1][0])
        raw = torch.relu(self.linear(hidden[-1]))
        return nn.functional.normalize(raw, dim=1)


class VoiceEncoder:
    """One set of weights for every recording. Methods block; call them off the event loop."""

    def __init__(self, *, threads: int = 1) -> None:
        torch.set_num_threads(threads)
        saved = torch.load(weights_path(), map_location="cpu", weights_only=True)
        state = cast("dict[str, Any]", saved["model_state"])
        self._net = _Encoder()
        wanted = self._net.state_dict().keys()
        self._net.load_state_dict({name: state[name] for name in wanted})
        self._net.eval()

    def embed(self, windows: Sequence[Samples]) -> Floats:
        """Unit vectors (windows, 256), each of up to 1.6 s; shorter ones are repeated to fill."""
        if not windows:
            return np.zeros((0, DIM), np.float32)
        mels = np.stack([_fill(mel_power(window)) for window in windows])
        out: list[Floats] = []
        with torch.inference_mode():
            for start in range(0, len(mels), _BATCH):
                batch = torch.tensor(mels[start : start + _BATCH])
                out.append(cast("torch.Tensor", self._net(batch)).numpy())
        return np.concatenate(out)

    def voice(self, pcm: Samples) -> Floats:
        """The voice of a sample of one speaker: the mean over windows that overlap by half."""
        size, hop = int(WINDOW_S * RATE_HZ), int(WINDOW_S * RATE_HZ / 2)
        starts = range(0, max(1, len(pcm) - size + 1), hop)
        return unit(self.embed([pcm[start : start + size] for start in starts]).mean(axis=0))


def _fill(mel: Floats) -> Floats:
    if len(mel) >= _FRAMES:
        return mel[:_FRAMES]
    return np.pad(mel, ((0, _FRAMES - len(mel)), (0, 0)), mode="wrap")
