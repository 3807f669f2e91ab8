"""The decoder by tiles: the whole picture where a tile sees it all, and within its memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import tinypipes
import torch
from torch import Tensor

from motet.components.diffusion.decoding import Decoding, TilingOptions, layers_of, spatial_scale
from motet.components.errors import BadInput
from motet.kernels.tilememory import decode_bytes


def stable() -> Any:
    torch.manual_seed(0)
    return SimpleNamespace(vae=tinypipes.kl_vae(), vae_scale_factor=2)


def decoded(pipe: Any, latents: Tensor, options: TilingOptions | None) -> tuple[Tensor, list[int]]:
    """The picture, and the sides of what the decoder was given."""
    sides: list[int] = []
    inner = pipe.vae.decoder.forward

    def forward(cut: Tensor, *args: Any, **kwargs: Any) -> Any:
        sides.append(max(cut.shape[-2:]))
        return inner(cut, *args, **kwargs)

    pipe.vae.decoder.forward = forward
    try:
        with torch.no_grad(), Decoding(pipe, options, None).attached():
            return pipe.vae.decode(latents, return_dict=False)[0], sides
    finally:
        pipe.vae.decoder.forward = inner


def test_tiles_that_see_the_whole_picture_give_it() -> None:
    pipe, latents = stable(), torch.randn(2, 4, 20, 12, generator=torch.Generator().manual_seed(1))
    exact, sides = decoded(pipe, latents, None)
    assert sides == [20]
    found, sides = decoded(pipe, latents, TilingOptions(size=8, halo=20, blend=2))
    assert len(sides) == 3 * 2
    torch.testing.assert_close(found, exact, atol=2e-5, rtol=1e-4)
    # With less halo the group norms see less of the picture.
    near, _ = decoded(pipe, latents, TilingOptions(size=8, halo=4, blend=2))
    far, _ = decoded(pipe, latents, TilingOptions(size=8, halo=0, blend=0))
    apart = [float((one - exact).abs().mean()) for one in (near, far)]
    assert 0 < apart[0] < apart[1]
    assert "decode" not in vars(pipe.vae)


def test_a_picture_no_larger_than_a_tile_is_decoded_as_it_is() -> None:
    pipe, latents = stable(), torch.randn(1, 4, 8, 8)
    found, sides = decoded(pipe, latents, TilingOptions(size=8, halo=2, blend=2))
    exact, _ = decoded(pipe, latents, None)
    assert sides == [8]
    assert torch.equal(found, exact)


def test_memory_sets_the_size_of_tiles() -> None:
    pipe, latents = stable(), torch.randn(1, 4, 40, 40)
    options = TilingOptions(memory_mib=1, halo=2, blend=2)
    _, sides = decoded(pipe, latents, options)
    layers = layers_of(pipe.vae, 2)
    assert len(sides) > 1
    assert decode_bytes(layers, max(sides), max(sides), dtype_bytes=4) <= 2**20
    with pytest.raises(ValueError, match="the smallest tile"):
        decoded(pipe, latents, TilingOptions(memory_mib=0.01, halo=2, blend=2))


def test_clips_are_cut_in_space_and_their_frames_stay_together() -> None:
    pipe = tinypipes.made("wan").pipe
    latents = torch.randn(1, 16, 3, 6, 4, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        exact = pipe.vae.decode(latents).sample
        options = TilingOptions(size=4, halo=6, blend=1, memory_mib=64)
        with Decoding(pipe, options.model_copy(update={"memory_mib": None}), None).attached():
            found = pipe.vae.decode(latents).sample
    torch.testing.assert_close(found, exact, atol=2e-5, rtol=1e-4)
    assert layers_of(pipe.vae, 8)[-1].frame_scale == 4


def test_a_decoder_that_is_not_known_is_refused_when_the_model_loads() -> None:
    ltx = tinypipes.made("ltx").pipe
    assert spatial_scale(ltx) == int(ltx.vae_spatial_compression_ratio)
    Decoding(ltx, TilingOptions(size=8), None)
    with pytest.raises(BadInput, match=r"memory of AutoencoderKLLTXVideo isn't known"):
        Decoding(ltx, TilingOptions(memory_mib=100), None)
    with pytest.raises(BadInput, match="doesn't tell how many pixels"):
        Decoding(SimpleNamespace(vae=None), TilingOptions(), None)
