"""Tiny random models of real architectures, saved as a user's folder would be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    CLIPVisionConfig,
    GenerationConfig,
    Idefics3Config,
    LlamaConfig,
    LlavaConfig,
    LlavaNextConfig,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    SmolVLMConfig,
)
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.llava.image_processing_pil_llava import LlavaImageProcessorPil
from transformers.models.llava_next.image_processing_pil_llava_next import (
    LlavaNextImageProcessorPil,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

from motet.components.loading import quiet_loading

# Two waiting threads on a busy machine cost more than one thread works.
torch.set_num_threads(1)

SPECIALS = (
    "<pad>",
    "<bos>",
    "<|im_end|>",
    "<|im_start|>",
    "<image>",
    "<video>",
    "<vision_start>",
    "<vision_end>",
    "<fake_token_around_image>",
    "<global-img>",
    *(f"<row_{y}_col_{x}>" for y in range(1, 5) for x in range(1, 5)),
)
VOCABULARY = len(SPECIALS) + 256
IMAGE, VIDEO, START, END = (SPECIALS.index(s) for s in SPECIALS[4:8])
EOS = SPECIALS.index("<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{% if p.type == 'image' %}<vision_start><image><vision_end>"
    "{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": EOS,
}
SIGHT: dict[str, Any] = {
    "image_size": 32,
    "patch_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "hidden_size": 32,
    "intermediate_size": 37,
}


def tokenizer(template: str = TEMPLATE) -> PreTrainedTokenizerFast:
    """Bytes as tokens, behind the specials."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: n for n, token in enumerate((*SPECIALS, *letters))}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True) for token in SPECIALS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", pad_token="<pad>", bos_token="<bos>"
    )
    fast.chat_template = template
    return fast


def config_of(kind: str) -> Any:
    """A configuration small enough to run in milliseconds."""
    if kind == "llama":
        return LlamaConfig(**TEXT)
    if kind == "qwen2_5_vl":
        rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
        sight = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 4}
        sight |= {"out_hidden_size": 64, "patch_size": 14, "spatial_merge_size": 2}
        sight |= {"temporal_patch_size": 2, "window_size": 56, "fullatt_block_indexes": [1]}
        return Qwen2_5_VLConfig(
            text_config=TEXT | {"rope_parameters": rope},
            vision_config=sight,
            image_token_id=IMAGE,
            video_token_id=VIDEO,
            vision_start_token_id=START,
            vision_end_token_id=END,
        )
    if kind in ("smolvlm", "idefics3"):
        made: Any = SmolVLMConfig if kind == "smolvlm" else Idefics3Config
        return made(
            image_token_id=IMAGE,
            scale_factor=2,
            vision_config=SIGHT | {"num_channels": 3},
            text_config=TEXT | {"model_type": "llama"},
        )
    sight = CLIPVisionConfig(**SIGHT, projection_dim=32)
    if kind == "llava":
        return LlavaConfig(
            vision_config=sight, text_config=LlamaConfig(**TEXT), image_token_index=IMAGE
        )
    return LlavaNextConfig(
        vision_config=sight,
        text_config=LlamaConfig(**TEXT),
        image_token_index=IMAGE,
        image_grid_pinpoints=[[32, 64], [64, 32], [64, 64]],
    )


def processor_of(kind: str) -> Any:
    """The image processor that belongs to it."""
    crop = {"height": 32, "width": 32}
    if kind == "qwen2_5_vl":
        return Qwen2VLImageProcessorPil(size={"shortest_edge": 56 * 56, "longest_edge": 50176})
    if kind in ("smolvlm", "idefics3"):
        made: Any = SmolVLMImageProcessorPil if kind == "smolvlm" else Idefics3ImageProcessorPil
        return made(size={"longest_edge": 96}, max_image_size={"longest_edge": 32})
    if kind == "llava":
        return LlavaImageProcessorPil(size={"shortest_edge": 32}, crop_size=crop)
    return LlavaNextImageProcessorPil(
        size={"shortest_edge": 32},
        crop_size=crop,
        image_grid_pinpoints=[[32, 64], [64, 32], [64, 64]],
    )


def save(kind: str, folder: Path, *, seed: int = 0, template: str = TEMPLATE) -> Any:
    """Save a model of a kind with its tokenizer and processor; the whole model."""
    torch.manual_seed(seed)
    config = config_of(kind)
    made: Any = AutoModelForCausalLM if kind == "llama" else AutoModelForImageTextToText
    with quiet_loading():
        model = made.from_config(config).eval()
        # Random weights of the usual size make every token alike; larger ones decide.
        with torch.no_grad():
            model.get_output_embeddings().weight.mul_(20)
        model.save_pretrained(folder)
        GenerationConfig(eos_token_id=EOS, pad_token_id=0).save_pretrained(folder)
        tokenizer(template).save_pretrained(folder)
        if kind != "llama":
            processor_of(kind).save_pretrained(folder)
        # Read back: how weights lie in memory decides the last bit of what is made of them.
        return made.from_pretrained(folder).eval()
