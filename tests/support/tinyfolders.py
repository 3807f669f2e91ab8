"""Whole folders of pipeline families with tiny random weights, text encoders and tokenizers too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tinypipes
import torch
from diffusers import (
    AutoencoderDC,
    AutoencoderKLCogVideoX,
    AutoencoderKLHunyuanVideo,
    CogVideoXDDIMScheduler,
    CogVideoXPipeline,
    CogVideoXTransformer3DModel,
    DDIMScheduler,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    HunyuanVideoPipeline,
    HunyuanVideoTransformer3DModel,
    LTXPipeline,
    PixArtSigmaPipeline,
    PixArtTransformer2DModel,
    SanaPipeline,
    SanaTransformer2DModel,
    StableDiffusion3Pipeline,
    StableDiffusionXLPipeline,
    WanPipeline,
)
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    Gemma2Config,
    Gemma2Model,
    LlamaConfig,
    LlamaModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5EncoderModel,
    UMT5Config,
    UMT5EncoderModel,
)

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def clip_words() -> CLIPTokenizer:
    pieces = ["<|startoftext|>", "<|endoftext|>", *LETTERS, *(one + "</w>" for one in LETTERS)]
    vocabulary = {piece: place for place, piece in enumerate(pieces)}
    return CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=77)


def clip(*, projects: bool = False) -> Any:
    kind = CLIPTextModelWithProjection if projects else CLIPTextModel
    return kind(
        CLIPTextConfig(
            bos_token_id=0, eos_token_id=1, pad_token_id=1, hidden_size=32, intermediate_size=37,
            num_attention_heads=4, num_hidden_layers=2, vocab_size=54, projection_dim=32,
        )
    ).eval()  # fmt: skip


def words(longest: int = 64) -> PreTrainedTokenizerFast:
    """Letter by letter, as T5's tokenizer ends and pads."""
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -1.0)]
    letters = [(letter, -2.0) for letter in LETTERS]
    tokenizer = Tokenizer(models.Unigram([*special, *letters], unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>",
        model_max_length=longest,
    )  # fmt: skip


T5_SIZE = {"vocab_size": 40, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 1, "num_heads": 4}


def t5() -> T5EncoderModel:
    return T5EncoderModel(T5Config(**T5_SIZE)).eval()


def parts(name: str, *names: str) -> dict[str, Any]:
    """Of the family's pipeline without text encoders: its scheduler, decoder and denoiser."""
    pipe = tinypipes.made(name).pipe
    return {one: getattr(pipe, one) for one in ("scheduler", "vae", *names)}


def wan() -> Any:
    text = UMT5EncoderModel(UMT5Config(**T5_SIZE)).eval()
    return WanPipeline(tokenizer=words(), text_encoder=text, **parts("wan", "transformer"))


def ltx() -> Any:
    return LTXPipeline(tokenizer=words(), text_encoder=t5(), **parts("ltx", "transformer"))


def flux() -> Any:
    return FluxPipeline(
        text_encoder=clip(), tokenizer=clip_words(), text_encoder_2=t5(), tokenizer_2=words(),
        **parts("flux", "transformer"),
    )  # fmt: skip


def sd3() -> Any:
    pipe = StableDiffusion3Pipeline(
        text_encoder=clip(projects=True), tokenizer=clip_words(),
        text_encoder_2=clip(projects=True), tokenizer_2=clip_words(), text_encoder_3=t5(),
        tokenizer_3=words(), **parts("sd3", "transformer"),
    )  # fmt: skip
    pipe.vae.register_to_config(shift_factor=0.0609)
    return pipe


def sdxl() -> Any:
    return StableDiffusionXLPipeline(
        text_encoder=clip(), tokenizer=clip_words(), text_encoder_2=clip(projects=True),
        tokenizer_2=clip_words(), **parts("sdxl", "unet"),
    )  # fmt: skip


def hunyuan() -> Any:
    net = HunyuanVideoTransformer3DModel(
        in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=10, num_layers=2,
        num_single_layers=2, num_refiner_layers=1, patch_size=1, patch_size_t=1,
        guidance_embeds=True, text_embed_dim=16, pooled_projection_dim=32, rope_axes_dim=(2, 4, 4),
    )  # fmt: skip
    vae = AutoencoderKLHunyuanVideo(
        latent_channels=4, block_out_channels=(8, 8, 8, 8), layers_per_block=1, norm_num_groups=4,
        down_block_types=("HunyuanVideoDownBlock3D",) * 4,
        up_block_types=("HunyuanVideoUpBlock3D",) * 4,
    )  # fmt: skip
    text = LlamaModel(
        LlamaConfig(
            hidden_size=16, intermediate_size=37, num_attention_heads=4, num_hidden_layers=2,
            vocab_size=40, pad_token_id=0, bos_token_id=2, eos_token_id=1,
        )
    ).eval()  # fmt: skip
    return HunyuanVideoPipeline(
        text_encoder=text, tokenizer=words(256), transformer=net, vae=vae, text_encoder_2=clip(),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=7.0), tokenizer_2=clip_words(),
    )  # fmt: skip


def cogvideo() -> Any:
    net = CogVideoXTransformer3DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=4,
        time_embed_dim=2, text_embed_dim=32, num_layers=2, sample_width=2, sample_height=2,
        sample_frames=9, patch_size=2, temporal_compression_ratio=4, max_text_seq_length=226,
    )  # fmt: skip
    vae = AutoencoderKLCogVideoX(
        down_block_types=("CogVideoXDownBlock3D",) * 4, up_block_types=("CogVideoXUpBlock3D",) * 4,
        block_out_channels=(8, 8, 8, 8), latent_channels=4, layers_per_block=1, norm_num_groups=2,
    )  # fmt: skip
    return CogVideoXPipeline(
        tokenizer=words(), text_encoder=t5(), vae=vae, transformer=net,
        scheduler=CogVideoXDDIMScheduler(),
    )  # fmt: skip


def pixart() -> Any:
    net = PixArtTransformer2DModel(
        sample_size=8, num_layers=4, patch_size=2, attention_head_dim=8, num_attention_heads=3,
        caption_channels=32, in_channels=4, cross_attention_dim=24, out_channels=8,
        norm_type="ada_norm_single", norm_elementwise_affine=False, norm_eps=1e-6,
    )  # fmt: skip
    return PixArtSigmaPipeline(
        tokenizer=words(), text_encoder=t5(), vae=tinypipes.kl_vae(), transformer=net,
        scheduler=DDIMScheduler(),
    )  # fmt: skip


def sana() -> Any:
    net = SanaTransformer2DModel(
        patch_size=1, in_channels=4, out_channels=4, num_layers=4, num_attention_heads=2,
        attention_head_dim=4, num_cross_attention_heads=2, cross_attention_head_dim=4,
        cross_attention_dim=8, caption_channels=8, sample_size=32,
    )  # fmt: skip
    vae = AutoencoderDC(
        latent_channels=4, encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8),
        encoder_layers_per_block=(1, 1), decoder_layers_per_block=(1, 1),
        encoder_block_types="ResBlock", decoder_block_types="ResBlock",
        encoder_qkv_multiscales=((), ()), decoder_qkv_multiscales=((), ()),
    )  # fmt: skip
    text = Gemma2Model(
        Gemma2Config(
            head_dim=16, hidden_size=8, intermediate_size=8, num_attention_heads=2,
            num_hidden_layers=1, num_key_value_heads=2, vocab_size=40,
        )
    ).eval()  # fmt: skip
    return SanaPipeline(
        transformer=net, vae=vae, scheduler=FlowMatchEulerDiscreteScheduler(shift=7.0),
        text_encoder=text, tokenizer=words(300),
    )  # fmt: skip


FOLDERS: dict[str, Callable[[], Any]] = {
    "sdxl": sdxl, "sd3": sd3, "flux": flux, "pixart": pixart, "sana": sana,
    "wan": wan, "ltx": ltx, "hunyuan": hunyuan, "cogvideo": cogvideo,
}  # fmt: skip


def made(name: str, seed: int = 0) -> Any:
    """The family's whole pipeline; the same seed gives the same weights."""
    torch.manual_seed(seed)
    return FOLDERS[name]()
