"""Whole diffusers folders with tiny random weights, text encoder and tokenizer among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tinypipes
import torch
from diffusers import (
    AutoencoderDC,
    DDIMScheduler,
    FlowMatchEulerDiscreteScheduler,
    StableDiffusionPipeline,
    WanTransformer3DModel,
)
from transformers import (
    BertTokenizer,
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTokenizer,
    DistilBertConfig,
    DistilBertModel,
)

from motet.components.diffusion.emoji import planner, positions
from motet.components.diffusion.emoji.pipeline import EmojiPipeline

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def clips(folder: Path) -> Path:
    """The class of the model in the box: pictures and clips of 32 pixels, 2 layers."""
    torch.manual_seed(0)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *("##" + c for c in LETTERS)]
    tokenizer = BertTokenizer(
        vocab={piece: place for place, piece in enumerate(pieces)}, model_max_length=20
    )
    text = planner.build_planner(
        DistilBertModel(
            DistilBertConfig(
                vocab_size=len(pieces), dim=32, n_layers=1, n_heads=2, hidden_dim=32,
                max_position_embeddings=64, dropout=0.0, attention_dropout=0.0,
            )
        )
    )  # fmt: skip
    net = WanTransformer3DModel(
        num_attention_heads=2, attention_head_dim=12, in_channels=16 + positions.CHANNELS,
        out_channels=16, text_dim=32, freq_dim=32, ffn_dim=32, num_layers=4, rope_max_seq_len=32,
    ).eval()  # fmt: skip
    vae = AutoencoderDC(
        latent_channels=16,
        encoder_block_out_channels=(16,) * 4, decoder_block_out_channels=(16,) * 4,
        encoder_layers_per_block=(1,) * 4, decoder_layers_per_block=(1,) * 4,
        encoder_block_types="ResBlock", decoder_block_types="ResBlock",
        encoder_qkv_multiscales=((),) * 4, decoder_qkv_multiscales=((),) * 4,
    ).eval()  # fmt: skip
    pipe: Any = EmojiPipeline(tokenizer, text, net, vae, FlowMatchEulerDiscreteScheduler(shift=2.0))
    pipe.save_pretrained(folder, safe_serialization=True)
    return folder


def stable(folder: Path) -> Path:
    """Stable Diffusion's class: a UNet, guidance as one doubled batch, image-to-image."""
    torch.manual_seed(0)
    ends = ["<|startoftext|>", "<|endoftext|>"]
    pieces = [*ends, *LETTERS, *(letter + "</w>" for letter in LETTERS)]
    tokenizer = CLIPTokenizer(
        vocab={piece: place for place, piece in enumerate(pieces)}, merges=[], model_max_length=12
    )
    text = CLIPTextModel(
        CLIPTextConfig(
            bos_token_id=0, eos_token_id=1, pad_token_id=1, hidden_size=32, intermediate_size=37,
            num_attention_heads=4, num_hidden_layers=2, vocab_size=len(pieces),
            max_position_embeddings=12,
        )
    ).eval()  # fmt: skip
    pipe: Any = StableDiffusionPipeline(
        vae=tinypipes.kl_vae(), text_encoder=text, tokenizer=tokenizer, unet=tinypipes.unet(32),
        scheduler=DDIMScheduler(clip_sample=False, steps_offset=1), safety_checker=None,
        feature_extractor=None, requires_safety_checker=False,
    )  # fmt: skip
    pipe.save_pretrained(folder, safe_serialization=True)
    return folder
