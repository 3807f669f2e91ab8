"""The pipeline of the model in the box: text to a picture (one frame) or a clip (many frames)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from diffusers.models.autoencoders.autoencoder_dc import AutoencoderDC
from diffusers.models.transformers.transformer_wan import WanTransformer3DModel
from diffusers.pipelines.pipeline_utils import DiffusionPipeline
from diffusers.schedulers.scheduling_flow_match_euler_discrete import (
    FlowMatchEulerDiscreteScheduler,
)
from diffusers.utils.outputs import BaseOutput
from diffusers.utils.torch_utils import randn_tensor  # pyright: ignore[reportUnknownVariableType]
from diffusers.video_processor import VideoProcessor
from torch import Tensor
from transformers import BertTokenizer, DistilBertForSequenceClassification

from .planner import plan, told
from .positions import with_positions
from .scene import Pose
from .text import encode

SIDE_PX = 96
CLIP_FRAMES = 16
DEFAULT_STEPS = 30
DEFAULT_GUIDANCE = 3.0
Generators = torch.Generator | list[torch.Generator] | None
StepEnd = Callable[["EmojiPipeline", int, Tensor, dict[str, Tensor | None]], dict[str, Tensor]]


@dataclass
class EmojiOutput(BaseOutput):
    """`frames`: one list of PIL pictures per prompt, or an array or tensor (N, F, ...)."""

    frames: Any


class EmojiPipeline(DiffusionPipeline):
    """Same calling convention as diffusers' WanPipeline: two denoiser calls a step under guidance.

    Latents are (N, 16, F, H / 8, W / 8), one latent frame per frame, decoded frame by frame.
    """

    model_cpu_offload_seq = "text_encoder->transformer->vae"
    _callback_tensor_inputs = ("latents", "prompt_embeds", "negative_prompt_embeds")

    def __init__(
        self,
        tokenizer: BertTokenizer,
        text_encoder: DistilBertForSequenceClassification,
        transformer: WanTransformer3DModel,
        vae: AutoencoderDC,
        scheduler: FlowMatchEulerDiscreteScheduler,
    ) -> None:
        super().__init__()
        cast(Any, self).register_modules(
            tokenizer=tokenizer,
            text_encoder=text_encoder,
            transformer=transformer,
            vae=vae,
            scheduler=scheduler,
        )
        self.tokenizer: Any
        self.text_encoder: Any
        self.transformer: Any
        self.vae: Any
        self.scheduler: Any
        self.vae_scale_factor_spatial = int(vae.spatial_compression_ratio)
        self.vae_scale_factor_temporal = 1
        self.video_processor: Any = VideoProcessor(vae_scale_factor=self.vae_scale_factor_spatial)
        self._guidance_scale = DEFAULT_GUIDANCE
        self._interrupt = False

    @property
    def guidance_scale(self) -> float:
        return self._guidance_scale

    @property
    def do_classifier_free_guidance(self) -> bool:
        return self._guidance_scale > 1.0

    @property
    def interrupt(self) -> bool:
        """A callback sets `_interrupt` to skip the steps that are left."""
        return self._interrupt

    def _device(self) -> torch.device:
        """Where the parts run, wherever their weights lie meanwhile."""
        return cast(torch.device, cast(Any, self)._execution_device)

    def encode_prompt(self, prompts: Sequence[str], repeats: int = 1) -> Tensor:
        """Text states (len(prompts) * repeats, 20, 256), each prompt's repeats side by side."""
        states = encode(self.text_encoder.distilbert, self.tokenizer, prompts)
        return states.repeat_interleave(repeats, dim=0).to(self.transformer.dtype)

    def encode_image(self, image: Any, height: int, width: int) -> Tensor:
        """Latents (N, 16, 1, H / 8, W / 8) of PIL pictures, arrays or tensors."""
        pixels: Tensor = self.video_processor.preprocess(image, height=height, width=width)
        pixels = pixels.to(self._device(), self.vae.dtype)
        latents: Tensor = self.vae.encode(pixels, return_dict=False)[0]
        return latents.float()[:, :, None] * self.vae.config.scaling_factor

    def prepare_latents(
        self, shape: tuple[int, ...], generator: Generators, latents: Tensor | None
    ) -> Tensor:
        """Noise of `shape`; one generator per sample makes it independent of the batch."""
        if isinstance(generator, list) and len(generator) != shape[0]:
            raise ValueError(f"got {len(generator)} generators for a batch of {shape[0]}")
        device = self._device()
        if latents is None:
            return randn_tensor(shape, generator=generator, device=device, dtype=torch.float32)
        if latents.shape != shape:
            raise ValueError(f"latents: got shape {tuple(latents.shape)}, expected {shape}")
        return latents.to(device, torch.float32)

    @torch.no_grad()
    def __call__(
        self,
        prompt: str | list[str] | None = None,
        negative_prompt: str | list[str] | None = None,
        height: int = SIDE_PX,
        width: int = SIDE_PX,
        num_frames: int = 1,
        num_inference_steps: int = DEFAULT_STEPS,
        guidance_scale: float = DEFAULT_GUIDANCE,
        num_videos_per_prompt: int = 1,
        generator: Generators = None,
        latents: Tensor | None = None,
        prompt_embeds: Tensor | None = None,
        negative_prompt_embeds: Tensor | None = None,
        image: Any = None,
        strength: float = 0.7,
        output_type: str = "pil",
        return_dict: bool = True,
        attention_kwargs: dict[str, Any] | None = None,
        callback_on_step_end: StepEnd | None = None,
        callback_on_step_end_tensor_inputs: Sequence[str] = ("latents",),
    ) -> EmojiOutput | tuple[Any]:
        """Generate; sides are multiples of 16 (trained at 96), frames 1 or up to 16.

        With `image`, generation starts from it and keeps the more of it the lower `strength` is.
        In a clip the thing goes the way that planner.plan reads from the prompt; without words
        of motion it stands still. `output_type` is "pil", "np", "pt" or "latent". Raises
        ValueError on other input.
        """
        _check(height, width, num_frames, num_inference_steps, strength)
        _check_callback(self._callback_tensor_inputs, callback_on_step_end_tensor_inputs)
        self._guidance_scale, self._interrupt = guidance_scale, False
        if prompt_embeds is None:
            if prompt is None:
                raise ValueError("give prompt or prompt_embeds")
            prompts = [prompt] if isinstance(prompt, str) else list(prompt)
            prompt_embeds = self.encode_prompt(prompts, num_videos_per_prompt)
        count = prompt_embeds.shape[0]
        if self.do_classifier_free_guidance and negative_prompt_embeds is None:
            negative_prompt_embeds = self._negative(negative_prompt, count)
        scale = self.vae_scale_factor_spatial
        channels: int = self.transformer.config.out_channels
        shape = (count, channels, num_frames, height // scale, width // scale)
        state: dict[str, Tensor | None] = {
            "latents": self.prepare_latents(shape, generator, latents),
            "prompt_embeds": prompt_embeds,
            "negative_prompt_embeds": negative_prompt_embeds,
        }
        path = None
        if num_frames > 1:
            path = told(plan(self.text_encoder, prompt_embeds, num_frames))
        self.scheduler.set_timesteps(num_inference_steps)
        first = 0
        if image is not None:
            first = num_inference_steps - max(1, round(num_inference_steps * strength))
            start = self.encode_image(image, height, width).expand(shape)
            at = self.scheduler.timesteps[first : first + 1]
            state["latents"] = self.scheduler.scale_noise(start, at, state["latents"])
        self.scheduler.set_begin_index(first)
        with cast(Any, self).progress_bar(total=num_inference_steps - first) as bar:
            for index in range(first, num_inference_steps):
                if self._interrupt:
                    break
                timestep: Tensor = self.scheduler.timesteps[index]
                velocity = self._velocity(index, timestep, state, path, attention_kwargs)
                state["latents"] = self.scheduler.step(
                    velocity, timestep, state["latents"], return_dict=False
                )[0]
                if callback_on_step_end is not None:
                    asked = {key: state[key] for key in callback_on_step_end_tensor_inputs}
                    state.update(callback_on_step_end(self, index, timestep, asked))
                bar.update()
        frames = cast(Tensor, state["latents"])
        if output_type != "latent":
            frames = self.decode_latents(frames, output_type)
        cast(Any, self).maybe_free_model_hooks()
        return EmojiOutput(frames=frames) if return_dict else (frames,)

    @torch.no_grad()
    def decode_latents(self, latents: Tensor, output_type: str = "pil") -> Any:
        """Frames of latents (N, 16, F, h, w); also serves previews in the middle of a run."""
        count, _, frames = latents.shape[:3]
        flat = latents.transpose(1, 2).flatten(0, 1).to(self.vae.dtype)
        pictures: Tensor = self.vae.decode(
            flat / self.vae.config.scaling_factor, return_dict=False
        )[0]
        shape = (count, frames, *pictures.shape[1:])
        video = pictures.float().clamp(-1, 1).reshape(shape).transpose(1, 2)
        return self.video_processor.postprocess_video(video, output_type=output_type)

    def _negative(self, negative_prompt: str | list[str] | None, count: int) -> Tensor:
        several = isinstance(negative_prompt, list)
        texts = negative_prompt if several else [negative_prompt or ""]
        if not texts or count % len(texts):
            raise ValueError(f"got {len(texts)} negative prompts for a batch of {count}")
        return self.encode_prompt(texts, count // len(texts))

    def _velocity(
        self,
        index: int,
        timestep: Tensor,
        state: dict[str, Tensor | None],
        path: Pose | None,
        attention_kwargs: dict[str, Any] | None,
    ) -> Tensor:
        """One guided prediction, as WanPipeline makes it: first with the prompt, then without."""
        latents = cast(Tensor, state["latents"])
        inputs = {
            "hidden_states": with_positions(latents, path).to(self.transformer.dtype),
            "timestep": timestep.to(latents.device).expand(latents.shape[0]),
            "attention_kwargs": attention_kwargs,
            "return_dict": False,
        }
        step = {
            "step_index": index,
            "sigma": float(self.scheduler.sigmas[index]),
            "num_inference_steps": len(self.scheduler.timesteps),
        }
        with self.transformer.cache_context("cond", **step):
            text = state["prompt_embeds"]
            wanted: Tensor = self.transformer(encoder_hidden_states=text, **inputs)[0]
        if not self.do_classifier_free_guidance:
            return wanted.float()
        with self.transformer.cache_context("uncond", **step):
            text = state["negative_prompt_embeds"]
            plain: Tensor = self.transformer(encoder_hidden_states=text, **inputs)[0]
        return (plain + self._guidance_scale * (wanted - plain)).float()


def _check(height: int, width: int, num_frames: int, steps: int, strength: float) -> None:
    faults: list[str] = []
    if height % 16 or width % 16 or min(height, width) < 16:
        faults.append(f"height and width must be multiples of 16, got {height} and {width}")
    if not 1 <= num_frames <= CLIP_FRAMES:
        faults.append(f"num_frames must be 1 to {CLIP_FRAMES}, got {num_frames}")
    if steps < 1:
        faults.append(f"num_inference_steps must be at least 1, got {steps}")
    if not 0 < strength <= 1:
        faults.append(f"strength must lie in (0, 1], got {strength}")
    if faults:
        raise ValueError("; ".join(faults))


def _check_callback(known: Sequence[str], asked: Sequence[str]) -> None:
    if unknown := set(asked) - set(known):
        raise ValueError(f"callback tensors {sorted(unknown)} are unknown; possible: {list(known)}")
