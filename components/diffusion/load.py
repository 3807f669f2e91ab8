"""Loading a diffusers pipeline: folder, hub id or the model in the box, with scheduler and LoRA."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import diffusers
import torch
from diffusers.utils import logging

from ..errors import BadInput, MissingRequirement, nearest
from ..loading import quiet_loading
from ..models import locate
from .options import DiffusionOptions

DEFAULT_MODEL = "emoji"
_OWN = {"EmojiPipeline": ".emoji.pipeline"}


def load_pipeline(model: str | None, options: DiffusionOptions) -> Any:
    """The pipeline on its device, safetensors only, without a progress bar.

    Raises:
        MissingRequirement: the folder, a package or the device isn't there.
        BadInput: the scheduler or a LoRA doesn't fit.
    """
    folder = locate(model or DEFAULT_MODEL)
    dtype = getattr(torch, options.dtype)
    try:
        with quiet_loading(), _without_bars():
            pipe = pipeline_class(folder).from_pretrained(
                folder,
                dtype=dtype,
                variant=options.variant,
                use_safetensors=True,
                local_files_only=True,
            )
    except (OSError, ValueError, ImportError) as error:
        raise MissingRequirement(f"{folder} can't be loaded: {error}", where="model") from error
    pipe.set_progress_bar_config(disable=True)
    if options.scheduler is not None or options.scheduler_options:
        pipe.scheduler = make_scheduler(pipe.scheduler, options)
    for place, lora in enumerate(options.lora):
        add_lora(pipe, f"lora{place}", lora.model, lora.weight_name, lora.scale)
    if options.vae_dtype is not None:
        pipe.vae.to(getattr(torch, options.vae_dtype))
    if options.vae_tiling is True:
        enable_tiling(pipe)
    return place_on(pipe, options)


@contextmanager
def _without_bars() -> Generator[None]:
    speaking: Any = logging
    bars = speaking.is_progress_bar_enabled()
    speaking.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            speaking.enable_progress_bar()


def pipeline_class(folder: Path) -> Any:
    """The class that `model_index.json` names: one of diffusers', or the model's in the box.

    Raises:
        MissingRequirement: there is no such file, or it names something unknown.
    """
    index = folder / "model_index.json"
    if not index.is_file():
        raise MissingRequirement(
            f"{folder} holds no diffusers pipeline: model_index.json is missing", where="model"
        )
    name = str(json.loads(index.read_text(encoding="utf-8")).get("_class_name"))
    if name in _OWN:
        return getattr(importlib.import_module(_OWN[name], __package__), name)
    found = getattr(diffusers, name, None)
    if found is None:
        raise MissingRequirement(
            f"{index} names {name!r}, which diffusers {diffusers.__version__} doesn't have",
            where="model",
        )
    return found


def make_scheduler(own: Any, options: DiffusionOptions) -> Any:
    """The model's scheduler, or another class with the model's settings, and the file's over them.

    Raises:
        BadInput: diffusers has no such scheduler.
    """
    names = [name for name in dir(diffusers) if name.endswith("Scheduler")]
    name = options.scheduler or type(own).__name__
    if name not in names:
        raise BadInput(f"{name!r} is unknown; {nearest(name, names)}", where="scheduler")
    kind: Any = getattr(diffusers, name)
    known = sorted(set(inspect.signature(kind.__init__).parameters) - {"self"})
    unknown = [key for key in options.scheduler_options if key not in known]
    if unknown:
        raise BadInput(
            f"{name} has no {', '.join(unknown)}; it has {', '.join(known)}",
            where="scheduler_options",
        )
    return kind.from_config(own.config, **options.scheduler_options)


def add_lora(pipe: Any, name: str, model: str, weight_name: str | None, scale: float) -> None:
    """Add a LoRA to the weights for good, which costs nothing per step and comes before quantising.

    Raises:
        BadInput: the pipeline takes none, or the file doesn't fit it.
    """
    if not hasattr(pipe, "load_lora_weights"):
        raise BadInput(f"{type(pipe).__name__} takes no LoRA", where="lora")
    try:
        pipe.load_lora_weights(
            str(locate(model)),
            weight_name=weight_name,
            adapter_name=name,
            use_safetensors=True,
            local_files_only=True,
        )
        pipe.fuse_lora(lora_scale=scale, adapter_names=[name])
        pipe.unload_lora_weights()
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise BadInput(f"{model!r} can't be added: {error}", where="lora") from error


def enable_tiling(pipe: Any) -> None:
    """Have the VAE decode tile by tile.

    Raises:
        BadInput: this VAE can't.
    """
    if not hasattr(pipe.vae, "enable_tiling"):
        raise BadInput(f"{type(pipe.vae).__name__} has no tiling", where="vae_tiling")
    pipe.vae.enable_tiling()


def place_on(pipe: Any, options: DiffusionOptions) -> Any:
    """Move the weights to the device, or have them come to it part by part.

    Raises:
        MissingRequirement: there is no such device.
    """
    try:
        if options.offload == "model":
            pipe.enable_model_cpu_offload(device=options.device)
        elif options.offload == "sequential":
            pipe.enable_sequential_cpu_offload(device=options.device)
        else:
            pipe.to(options.device)
    except (RuntimeError, AssertionError) as error:
        raise MissingRequirement(f"device {options.device!r}: {error}", where="device") from error
    return pipe
