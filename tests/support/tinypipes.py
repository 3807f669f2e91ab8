"""Pipelines of seven families with tiny random weights: they prove equality, not pictures."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import diffusers
import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderKLLTXVideo,
    AutoencoderKLQwenImage,
    AutoencoderKLWan,
    DDIMScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    LTXPipeline,
    LTXVideoTransformer3DModel,
    QwenImagePipeline,
    QwenImageTransformer2DModel,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
    UniPCMultistepScheduler,
    WanPipeline,
    WanTransformer3DModel,
)
from torch import Tensor
from transformers import CLIPTextConfig, CLIPTextModelWithProjection

diffusers.utils.logging.set_verbosity_error()
LAYERS = 4


@dataclass(frozen=True)
class Family:
    """A pipeline, how it is called with latents out, and its argument of guidance."""

    pipe: Any
    scale_name: str
    call: dict[str, Any]
    embeds: Callable[[int], dict[str, Tensor]]

    def __call__(self, rows: int = 1, seed: int = 0, scale: float = 4.0, **more: Any) -> Tensor:
        generators = [torch.Generator().manual_seed(seed + row) for row in range(rows)]
        call = {**self.call, **self.embeds(rows), self.scale_name: scale, **more}
        return self.pipe(generator=generators, output_type="latent", **call)[0]


def family(pipe: Any, scale_name: str, sides: int, embeds: Any, **call: Any) -> Family:
    pipe.set_progress_bar_config(disable=True)
    call = {"height": sides, "width": sides, "num_inference_steps": 6, **call}
    return Family(pipe, scale_name, call, embeds)


def states(tokens: int, width: int, pooled: int = 0, mask: Any = None) -> Any:
    """Prompt and negative encodings, each row its own."""

    def make(rows: int) -> dict[str, Tensor]:
        made: dict[str, Tensor] = {}
        for place, name in enumerate(("", "negative_")):
            own = [torch.Generator().manual_seed(50 + 10 * place + row) for row in range(rows)]
            draw = lambda *shape, own=own: torch.stack(  # noqa: E731
                [torch.randn(*shape, generator=one) for one in own]
            )
            made[f"{name}prompt_embeds"] = draw(tokens, width)
            if pooled:
                made[f"{name}pooled_prompt_embeds"] = draw(pooled)
            if mask is not None:
                made[f"{name}{mask[0]}"] = torch.ones(rows, tokens, dtype=mask[1])
        return made

    return make


def kl_vae(latents: int = 4) -> AutoencoderKL:
    return AutoencoderKL(
        block_out_channels=[32, 64], in_channels=3, out_channels=3, norm_num_groups=8,
        down_block_types=["DownEncoderBlock2D"] * 2, up_block_types=["UpDecoderBlock2D"] * 2,
        latent_channels=latents, sample_size=32,
    ).eval()  # fmt: skip


def unet(width: int, **more: Any) -> UNet2DConditionModel:
    return UNet2DConditionModel(
        block_out_channels=(32, 64), layers_per_block=1, sample_size=16, in_channels=4,
        out_channels=4, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=width,
        norm_num_groups=8, **more,
    )  # fmt: skip


def sd() -> Family:
    scheduler = DDIMScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", clip_sample=False,
        set_alpha_to_one=False,
    )  # fmt: skip
    pipe = StableDiffusionPipeline(
        vae=kl_vae(), text_encoder=None, tokenizer=None, unet=unet(32), scheduler=scheduler,
        safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    )  # fmt: skip
    return family(pipe, "guidance_scale", 32, states(8, 32))


def sdxl() -> Family:
    config = CLIPTextConfig(
        bos_token_id=0, eos_token_id=2, hidden_size=32, intermediate_size=37,
        num_attention_heads=4, num_hidden_layers=2, pad_token_id=1, vocab_size=1000,
        projection_dim=32,
    )  # fmt: skip
    net = unet(
        64, attention_head_dim=(2, 4), use_linear_projection=True,
        addition_embed_type="text_time", addition_time_embed_dim=8,
        transformer_layers_per_block=(1, 1), projection_class_embeddings_input_dim=80,
    )  # fmt: skip
    pipe = StableDiffusionXLPipeline(
        vae=kl_vae(), text_encoder=None, text_encoder_2=CLIPTextModelWithProjection(config).eval(),
        tokenizer=None, tokenizer_2=None, unet=net, scheduler=EulerDiscreteScheduler(),
    )  # fmt: skip
    return family(pipe, "guidance_scale", 32, states(8, 64, 32))


def sd3() -> Family:
    net = SD3Transformer2DModel(
        sample_size=32, patch_size=1, in_channels=4, num_layers=LAYERS, attention_head_dim=8,
        num_attention_heads=4, caption_projection_dim=32, joint_attention_dim=32,
        pooled_projection_dim=64, out_channels=4,
    )  # fmt: skip
    parts = dict.fromkeys(
        ("text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2", "text_encoder_3",
         "tokenizer_3"), None,
    )  # fmt: skip
    pipe = StableDiffusion3Pipeline(
        transformer=net, scheduler=FlowMatchEulerDiscreteScheduler(), vae=kl_vae(), **parts
    )
    return family(pipe, "guidance_scale", 32, states(8, 32, 64))


def flux() -> Family:
    net = FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=2, num_single_layers=LAYERS - 2,
        attention_head_dim=16, num_attention_heads=2, joint_attention_dim=32,
        pooled_projection_dim=32, axes_dims_rope=[4, 4, 8], guidance_embeds=True,
    )  # fmt: skip
    vae = AutoencoderKL(
        sample_size=32, in_channels=3, out_channels=3, block_out_channels=(4,),
        layers_per_block=1, latent_channels=1, norm_num_groups=1, use_quant_conv=False,
        use_post_quant_conv=False, shift_factor=0.0609, scaling_factor=1.5035,
    )  # fmt: skip
    pipe = FluxPipeline(
        transformer=net, scheduler=FlowMatchEulerDiscreteScheduler(), vae=vae, text_encoder=None,
        tokenizer=None, text_encoder_2=None, tokenizer_2=None,
    )  # fmt: skip
    return family(pipe, "true_cfg_scale", 16, states(8, 32, 32))


def qwen() -> Family:
    net = QwenImageTransformer2DModel(
        patch_size=2, in_channels=16, out_channels=4, num_layers=LAYERS, attention_head_dim=16,
        num_attention_heads=3, joint_attention_dim=16, axes_dims_rope=(8, 4, 4),
    )  # fmt: skip
    vae = AutoencoderKLQwenImage(
        base_dim=24, z_dim=4, dim_mult=[1, 2, 4], num_res_blocks=1,
        temperal_downsample=[False, True], latents_mean=[0.0] * 4, latents_std=[1.0] * 4,
    )  # fmt: skip
    pipe = QwenImagePipeline(
        transformer=net, scheduler=FlowMatchEulerDiscreteScheduler(), vae=vae, text_encoder=None,
        tokenizer=None,
    )  # fmt: skip
    mask = ("prompt_embeds_mask", torch.long)
    return family(pipe, "true_cfg_scale", 32, states(8, 16, mask=mask))


def wan() -> Family:
    vae = AutoencoderKLWan(
        base_dim=3, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1,
        temperal_downsample=[False, True, True],
    )  # fmt: skip
    net = WanTransformer3DModel(
        patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=16,
        out_channels=16, text_dim=32, freq_dim=256, ffn_dim=32, num_layers=LAYERS,
        cross_attn_norm=True, qk_norm="rms_norm_across_heads", rope_max_seq_len=32,
    )  # fmt: skip
    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
    )
    pipe = WanPipeline(
        tokenizer=None, text_encoder=None, vae=vae, scheduler=scheduler, transformer=net
    )
    return family(pipe, "guidance_scale", 16, states(16, 32), num_frames=9)


def ltx() -> Family:
    net = LTXVideoTransformer3DModel(
        in_channels=8, out_channels=8, patch_size=1, patch_size_t=1, num_attention_heads=4,
        attention_head_dim=8, cross_attention_dim=32, num_layers=LAYERS, caption_channels=32,
    )  # fmt: skip
    vae = AutoencoderKLLTXVideo(
        in_channels=3, out_channels=3, latent_channels=8, block_out_channels=(8,) * 4,
        decoder_block_out_channels=(8,) * 4, layers_per_block=(1,) * 5,
        decoder_layers_per_block=(1,) * 5, spatio_temporal_scaling=(True, True, False, False),
        decoder_spatio_temporal_scaling=(True, True, False, False),
        decoder_inject_noise=(False,) * 5, upsample_residual=(False,) * 4,
        upsample_factor=(1,) * 4, timestep_conditioning=False, patch_size=1, patch_size_t=1,
        encoder_causal=True, decoder_causal=False,
    )  # fmt: skip
    pipe = LTXPipeline(
        transformer=net, scheduler=FlowMatchEulerDiscreteScheduler(), vae=vae, text_encoder=None,
        tokenizer=None,
    )  # fmt: skip
    mask = ("prompt_attention_mask", torch.bool)
    return family(pipe, "guidance_scale", 32, states(16, 32, mask=mask), num_frames=9)


FAMILIES: dict[str, Callable[[], Family]] = {
    "sd": sd, "sdxl": sdxl, "sd3": sd3, "flux": flux, "qwen": qwen, "wan": wan, "ltx": ltx,
}  # fmt: skip


def made(name: str, seed: int = 0) -> Family:
    """The family's pipeline; the same seed gives the same weights."""
    torch.manual_seed(seed)
    return FAMILIES[name]()
