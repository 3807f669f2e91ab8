"""What a pipeline is called with, and which one starts from a picture."""

from __future__ import annotations

import pytest
import tinypipes
from diffusers import FluxImg2ImgPipeline, LTXImageToVideoPipeline

from motet.components.diffusion.call import from_image
from motet.components.errors import BadInput


@pytest.mark.parametrize(
    ("name", "kind"), [("flux", FluxImg2ImgPipeline), ("ltx", LTXImageToVideoPipeline)]
)
def test_the_starter_shares_the_weights(name: str, kind: type) -> None:
    pipe = tinypipes.made(name).pipe
    found = from_image(pipe)
    assert type(found) is kind
    assert found.transformer is pipe.transformer
    assert found.vae is pipe.vae


def test_a_model_that_has_none_is_refused() -> None:
    with pytest.raises(BadInput, match="WanPipeline can't start from a picture"):
        from_image(tinypipes.made("wan").pipe)
