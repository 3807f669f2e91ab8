"""SNAC's decoder, walked so that a window computes only what its kept frames need.

A window brings `context` frames to each side. The deep layers need them; each later layer, whose
rate is higher, sees less far, and most of the work is there. What a layer's output is needed for
follows backwards from the kept samples, and the signal is cut to it on the way up: the same
samples for a fifth of the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.nn.utils import parametrize

# A block's three residual units have kernels of 7 at dilations of 1, 3 and 9.
REACH = 3 * (1 + 3 + 9)
# The last convolution has a kernel of 7.
LAST_REACH = 3
# Numbers of a signal that a core's own cache holds with what is made of them (half a MiB).
CACHED = 2**17


@dataclass(frozen=True, slots=True)
class Cut:
    """What of a block's input is needed, and what of its output is, in the window's own places."""

    start: int
    stop: int
    out_start: int
    out_stop: int


class Upsampler(torch.nn.Module):
    """The decoder of a SNAC model, taken apart; the model is of no use afterwards."""

    def __init__(self, decoder: Any) -> None:
        super().__init__()
        fold(decoder)
        layers = list(decoder.model)
        first = next(n for n, layer in enumerate(layers) if hasattr(layer, "block"))
        self._begin = torch.nn.Sequential(*layers[:first])
        self._blocks = torch.nn.ModuleList([Block(one.block) for one in layers[first:-3]])
        self._snake = Snake(layers[-3])
        self._end = torch.nn.Sequential(*layers[-2:])

    @property
    def strides(self) -> list[int]:
        """By how much each block raises the rate."""
        return [cast("Block", block).stride for block in self._blocks]

    def forward(
        self, latents: torch.Tensor, noises: Sequence[torch.Tensor], keep: tuple[int, int]
    ) -> torch.Tensor:
        """Samples `keep` of windows (batch, width, length); (batch, 1, samples).

        `noises` are for each block, (batch, 1, length at its rate).
        """
        cuts = plan(latents.shape[-1], self.strides, keep)
        x, at = self._begin(latents), 0
        for n, cut in enumerate(cuts):
            block = cast("Block", self._blocks[n])
            x = block.whole(x[..., cut.start - at : cut.stop - at], noises[n], cut)
            at = cut.out_start
        return self._end(self._snake(x))[..., keep[0] - at : keep[1] - at]


class Block(torch.nn.Module):
    """One step up: a transposed convolution, the stream's noise, three residual units."""

    def __init__(self, layers: Any) -> None:
        super().__init__()
        found = list(layers)
        self.up = found[1]
        self.stride = int(self.up.stride[0])
        self.noisy = type(found[2]).__name__ == "NoiseBlock"
        self._snake = Snake(found[0])
        self._noise: Any = found[2].linear if self.noisy else None
        units = [unit.block for unit in found[3 if self.noisy else 2 :]]
        self._units = torch.nn.ModuleList([residual(*unit) for unit in units])
        self._weights = int(self.up.weight.numel())

    def whole(self, x: torch.Tensor, noise: torch.Tensor, cut: Cut) -> torch.Tensor:
        """The part of the output that is needed, of the part of the input that is.

        On a CPU, streams gain by each other where they share the reading of large weights. Behind
        that the signal is what is read, and few streams at a time stay in the cache.
        """
        noise = noise[..., cut.out_start : cut.out_stop]
        made = int(self.up.out_channels) * (cut.out_stop - cut.out_start)
        if compiling() or x.device.type != "cpu" or self._weights > 4 * made:
            return self(x, noise, cut)
        at_once = max(1, round(CACHED * torch.get_num_threads() / made))
        starts = range(0, len(x), at_once)
        return torch.cat([self(x[n : n + at_once], noise[n : n + at_once], cut) for n in starts])

    def forward(self, x: torch.Tensor, noise: torch.Tensor, cut: Cut) -> torch.Tensor:
        """All streams at once; `noise` is that of the output."""
        begin = cut.start * self.stride
        x = self.up(self._snake(x))[..., cut.out_start - begin : cut.out_stop - begin]
        if self._noise is not None:
            x = x + noise * self._noise(x)
        for unit in self._units:
            x = x + unit(x)
        return x


def residual(first: Any, wide: Any, second: Any, point: Any) -> torch.nn.Sequential:
    """What a residual unit adds."""
    dilated = wide.groups == wide.in_channels and wide.dilation[0] > 1
    return torch.nn.Sequential(
        Snake(first), Shifts(wide) if dilated else wide, Snake(second), point
    )


class Shifts(torch.nn.Module):
    """A dilated convolution of each channel by itself, as shifted copies that are added up: oneDNN
    takes three times as long for those."""

    def __init__(self, layer: torch.nn.Conv1d) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self._step, self._pad = int(layer.dilation[0]), int(layer.padding[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of (batch, channels, length)."""
        length = x.shape[-1]
        padded = torch.nn.functional.pad(x, (self._pad, self._pad))
        taps = self.weight[:, 0]
        made = padded[..., :length] * taps[:, :1]
        if self.bias is not None:
            made += self.bias[:, None]
        for n in range(1, taps.shape[1]):
            at = n * self._step
            made.addcmul_(padded[..., at : at + length], taps[:, n : n + 1])
        return made


def compiling() -> bool:
    """Whether the code is being compiled, which fuses and needs no parts."""
    compiler: Any = torch.compiler
    return bool(compiler.is_compiling())


class Snake(torch.nn.Module):
    """x + sin²(αx) / α, with one array for what comes between."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.alpha = layer.alpha
        self.inverse = torch.nn.Parameter((layer.alpha + 1e-9).reciprocal(), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of (batch, channels, length)."""
        wave = torch.mul(x, self.alpha).sin_()
        return wave.square_().mul_(self.inverse).add_(x)


def plan(length: int, strides: Sequence[int], keep: tuple[int, int]) -> list[Cut]:
    """What each block needs for samples `keep` of a window of `length` latents.

    A transposed convolution of kernel 2·s and stride s, padded by ceil(s / 2), makes output o of
    the inputs (o + pad - 2·s + 1) / s to (o + pad) / s.
    """
    lengths = [length]
    for stride in strides:
        lengths.append(lengths[-1] * stride)
    start, stop = max(0, keep[0] - LAST_REACH), min(lengths[-1], keep[1] + LAST_REACH)
    cuts: list[Cut] = []
    for n in reversed(range(len(strides))):
        stride, pad = strides[n], -(-strides[n] // 2)
        out = max(0, start - REACH), min(lengths[n + 1], stop + REACH)
        start = max(0, -(-(out[0] + pad - 2 * stride + 1) // stride))
        stop = min(lengths[n], (out[1] - 1 + pad) // stride + 1)
        cuts.append(Cut(start, stop, *out))
    return cuts[::-1]


def fold(module: torch.nn.Module) -> None:
    """Weight norms into plain weights, which are then not computed anew by each call."""
    for part in module.modules():
        if parametrize.is_parametrized(part, "weight"):
            parametrize.remove_parametrizations(part, "weight")
