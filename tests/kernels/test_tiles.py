"""Tiled decode against a whole decode, and the memory estimate against real ones."""

import weakref
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from motet.kernels.tilememory import decode_bytes, decoder_layers, fit_tiling
from motet.kernels.tiles import Tiling, spans, tiled_decode

pytestmark = pytest.mark.timeout(60)


@settings(deadline=None)
@given(
    length=st.integers(1, 90),
    size=st.integers(2, 40),
    halo=st.integers(0, 5),
    share=st.floats(0, 0.5),
)
def test_spans_cover_every_pixel_with_the_overlap_asked_for(length, size, halo, share) -> None:
    tiling = Tiling(size, halo, int(size * share))
    found = spans(length, tiling)
    assert (found[0].start, found[-1].stop) == (0, length)
    for left, right in pairwise(found):
        assert left.stop - right.start == tiling.blend
        assert right.stop > left.stop
    for span in found:
        assert span.stop - span.start <= size
        assert span.outer_start == max(span.start - halo, 0)
        assert span.outer_stop == min(span.stop + halo, length)


def decoder(dims: int = 2) -> nn.Module:
    torch.manual_seed(0)
    conv = nn.Conv2d if dims == 2 else nn.Conv3d
    up = nn.Upsample(scale_factor=2 if dims == 2 else (1, 2, 2))
    return nn.Sequential(conv(4, 8, 3, padding=1), nn.SiLU(), up, conv(8, 3, 3, padding=1)).double()


@pytest.mark.parametrize(("height", "width"), [(21, 33), (8, 8), (5, 40)])
@pytest.mark.parametrize("blend", [0, 2, 4])
def test_a_halo_as_wide_as_the_decoders_sight_gives_the_whole_picture(
    height: int, width: int, blend: int
) -> None:
    net, latents = decoder(), torch.randn(2, 4, height, width, dtype=torch.float64)
    with torch.no_grad():
        got = tiled_decode(net, latents, Tiling(8, 2, blend), 2)
        torch.testing.assert_close(got, net(latents))


def test_without_a_halo_seams_show() -> None:
    net, latents = decoder(), torch.randn(1, 4, 24, 24, dtype=torch.float64)
    with torch.no_grad():
        seams = (tiled_decode(net, latents, Tiling(8, 0, 0), 2) - net(latents)).abs()
        blended = (tiled_decode(net, latents, Tiling(8, 0, 4), 2) - net(latents)).abs()
    assert seams.max() > 0.05
    assert blended.mean() < seams.mean()


def test_clips_are_cut_in_space() -> None:
    net, latents = decoder(3), torch.randn(1, 4, 3, 12, 20, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(tiled_decode(net, latents, Tiling(8, 2, 2), 2), net(latents))


def test_a_decoder_of_another_scale_is_refused() -> None:
    with pytest.raises(ValueError, match=r"decode gave \(16, 16\) pixels, not \(32, 32\)"):
        tiled_decode(decoder(), torch.zeros(1, 4, 8, 8, dtype=torch.float64), Tiling(8, 0, 0), 4)
    with pytest.raises(ValueError, match="blend: 5 is over half of size 8"):
        Tiling(8, 0, 5)


class LiveBytes(TorchDispatchMode):
    """Peak bytes of the storages made inside, by when they are freed."""

    def __init__(self) -> None:
        super().__init__()
        self.live, self.peak = 0, 0
        self.seen: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_flatten(out)[0]:
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        return out

    def _count(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self.seen:
            return
        self.seen.add(key)
        self.live += storage.nbytes()
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._freed, key, storage.nbytes())

    def _freed(self, key: int, n_bytes: int) -> None:
        self.seen.discard(key)
        self.live -= n_bytes


def peak_bytes(run: Callable[[], object]) -> int:
    with torch.inference_mode(), LiveBytes() as counter:
        run()
    return counter.peak


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("channels", [(16, 32, 64), (16, 16), (8, 16, 32, 32)])
def test_memory_estimate_is_near_a_real_decode(channels: tuple[int, ...]) -> None:
    """diffusers' image VAE with small widths; the estimate may be over, but little under."""
    diffusers = pytest.importorskip("diffusers")
    blocks = len(channels)
    vae = diffusers.AutoencoderKL(
        block_out_channels=channels,
        down_block_types=["DownEncoderBlock2D"] * blocks,
        up_block_types=["UpDecoderBlock2D"] * blocks,
        norm_num_groups=4,
        latent_channels=4,
        mid_block_add_attention=False,
    ).eval()
    latents = torch.randn(1, 4, 24, 24)
    measured = peak_bytes(lambda: vae.decode(latents).sample)
    estimate = decode_bytes(decoder_layers(channels), 24, 24, dtype_bytes=4)
    assert 0.8 * measured <= estimate <= 2.0 * measured


def test_layers_of_a_decoder() -> None:
    got = decoder_layers((8, 16, 32), temporal=(True, False))
    places = [(one.channels, one.scale, one.frame_scale) for one in got]
    assert places == [(32, 1, 1), (32, 2, 2), (16, 2, 2), (16, 4, 2), (8, 4, 2)]


def test_the_tile_is_the_largest_that_fits() -> None:
    layers = decoder_layers((128, 256, 512, 512))
    budget = 2 * 1024**3
    tiling = fit_tiling(layers, budget, halo=4, blend=8)
    side = tiling.size + 8
    assert decode_bytes(layers, side, side) <= budget < decode_bytes(layers, side + 1, side + 1)
    assert fit_tiling(layers, budget, 4, 8, frames=4).size < tiling.size
    with pytest.raises(ValueError, match="smallest tile, 16 latent pixels and a halo of 4, needs"):
        fit_tiling(layers, 1000, halo=4, blend=8)
