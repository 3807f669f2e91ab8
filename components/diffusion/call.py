"""The arguments of a pipeline's call, by what that pipeline takes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import diffusers
import torch

from ..errors import BadInput
from ..loading import quiet_loading
from .shot import Shot

with quiet_loading():  # the import tells which backend it takes where torchvision isn't there
    from diffusers.pipelines.auto_pipeline import AutoPipelineForImage2Image


def parameters(pipe: Any) -> Mapping[str, inspect.Parameter]:
    """What the pipeline's call takes."""
    return inspect.signature(pipe.__call__).parameters


def makes_clips(pipe: Any) -> bool:
    """Whether it can make more than one frame."""
    return "num_frames" in parameters(pipe)


def defaults(pipe: Any) -> dict[str, Any]:
    """The call's own defaults: steps, size, guidance."""
    return {name: one.default for name, one in parameters(pipe).items()}


# Those that start from a picture on the same weights, which diffusers' own table leaves out.
_STARTERS = {"LTXPipeline": "LTXImageToVideoPipeline"}


def from_image(pipe: Any) -> Any:
    """The pipeline on the same weights that starts from a picture.

    Raises:
        BadInput: there is none for this model.
    """
    if "image" in parameters(pipe):
        return pipe
    auto: Any = AutoPipelineForImage2Image
    own = _STARTERS.get(type(pipe).__name__)
    try:
        found = getattr(diffusers, own).from_pipe(pipe) if own else auto.from_pipe(pipe)
    except (ValueError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{type(pipe).__name__} can't start from a picture", where="image", param="image"
        ) from error
    found.set_progress_bar_config(disable=True)
    return found


def guidance_argument(pipe: Any, negative: bool) -> str | None:
    """Which argument guidance goes to; None where the pipeline has none.

    Models distilled with guidance inside (FLUX.1-dev) take it as an input; they run two branches
    only when a negative prompt asks for it.
    """
    known = parameters(pipe)
    if "true_cfg_scale" not in known:
        return "guidance_scale" if "guidance_scale" in known else None
    distilled = bool(pipe.transformer.config.get("guidance_embeds", False))
    return "guidance_scale" if distilled and not negative else "true_cfg_scale"


def arguments(pipe: Any, shots: Sequence[Shot], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The call for these shots, which share a shape; pictures come as tensors in 0..1.

    Raises:
        BadInput: the pipeline doesn't take something that was asked for.
    """
    known, shape = parameters(pipe), shots[0].shape
    call: dict[str, Any] = {
        "prompt": [shot.prompt for shot in shots],
        "generator": [torch.Generator().manual_seed(shot.seed) for shot in shots],
        "output_type": "pt",
        "height": shape.height,
        "width": shape.width,
        "num_frames": shape.frames,
        "num_inference_steps": shape.steps,
        "frame_rate": shape.fps if "frame_rate" in known else None,
        "strength": shape.strength if shots[0].image is not None else None,
        "image": [shot.image for shot in shots] if shots[0].image is not None else None,
        **guiding(pipe, shots),
    }
    if "strength" not in known and not shape.insisted:
        call["strength"] = None
    if shots[0].image is not None and "image" in known:
        # Those that start from a picture and take no size use the picture's.
        call = {key: value for key, value in call.items() if key in known or key not in _SIZE}
    call = {key: value for key, value in call.items() if value is not None}
    unknown = sorted((set(call) | set(extra)) - set(known))
    if unknown:
        names = ", ".join(unknown)
        raise BadInput(f"{type(pipe).__name__} doesn't take {names}", where="generate")
    return {**call, **extra}


_SIZE = ("height", "width")


def guiding(pipe: Any, shots: Sequence[Shot]) -> dict[str, Any]:
    """Guidance and negative prompts."""
    wanted = shots[0].shape.guidance
    negative = any(shot.negative for shot in shots)
    name = guidance_argument(pipe, negative)
    if name is None:
        if wanted is not None or negative:
            raise BadInput(
                f"{type(pipe).__name__} has no guidance", where="guidance", param="guidance"
            )
        return {}
    scale = parameters(pipe)[name].default if wanted is None else wanted
    guided = scale is not None and float(scale) > 1
    texts = [shot.negative or "" for shot in shots] if guided or negative else None
    if texts and "negative_prompt" not in parameters(pipe):
        texts = None
    return {name: wanted, "negative_prompt": texts}
