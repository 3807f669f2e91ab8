"""Tiny random diffusers transformers, and, run as a script, a rank of their context parallelism."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import diffusers
import torch
import torch.distributed as dist
from diffusers import ContextParallelConfig
from diffusers.hooks import context_parallel
from torch import Tensor, nn

from motet.kernels.parallel import Group, gather, gather_lengths

Made = tuple[nn.Module, dict[str, object]]
diffusers.utils.logging.set_verbosity_error()


def _seeded(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def wan(frames: int = 3) -> Made:
    """27 tokens with 3 frames of 6 x 6 latents."""
    torch.manual_seed(0)
    model = diffusers.WanTransformer3DModel(
        patch_size=(1, 2, 2), num_attention_heads=4, attention_head_dim=12, in_channels=4,
        out_channels=4, text_dim=16, freq_dim=32, ffn_dim=32, num_layers=2, cross_attn_norm=True,
        qk_norm="rms_norm_across_heads", rope_max_seq_len=32,
    )  # fmt: skip
    return model.eval(), {
        "hidden_states": _seeded(1, 4, frames, 6, 6),
        "timestep": torch.tensor([500]),
        "encoder_hidden_states": _seeded(1, 7, 16, seed=2),
        "return_dict": False,
    }


def flux(heads: int = 2, image: int = 16, text: int = 8) -> Made:
    torch.manual_seed(0)
    model = diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16,
        num_attention_heads=heads, joint_attention_dim=32, pooled_projection_dim=32,
        axes_dims_rope=[4, 4, 8], guidance_embeds=True,
    )  # fmt: skip
    return model.eval(), {
        "hidden_states": _seeded(1, image, 4),
        "encoder_hidden_states": _seeded(1, text, 32, seed=2),
        "pooled_projections": _seeded(1, 32, seed=3),
        "timestep": torch.tensor([0.5]),
        "img_ids": torch.arange(image * 3).reshape(image, 3).float() % 5,
        "txt_ids": torch.zeros(text, 3),
        "guidance": torch.tensor([3.5]),
        "return_dict": False,
    }


def qwen(masked: bool) -> Made:
    """A batch of two whose second prompt has three tokens and five of padding."""
    torch.manual_seed(0)
    model = diffusers.QwenImageTransformer2DModel(
        patch_size=2, in_channels=16, out_channels=4, num_layers=2, attention_head_dim=16,
        num_attention_heads=4, joint_attention_dim=16, axes_dims_rope=(8, 4, 4),
    )  # fmt: skip
    keep = torch.ones(2, 8, dtype=torch.long)
    if masked:
        keep[1, 3:] = 0
    return model.eval(), {
        "hidden_states": _seeded(2, 16, 16),
        "encoder_hidden_states": _seeded(2, 8, 16, seed=2),
        "encoder_hidden_states_mask": keep,
        "timestep": torch.tensor([1.0, 1.0]),
        "img_shapes": [[(1, 4, 4)]] * 2,
        "return_dict": False,
    }


def unet() -> Made:
    """An SD-like UNet with self- and cross-attention, whose processors call torch's SDPA."""
    torch.manual_seed(0)
    model = diffusers.UNet2DConditionModel(
        block_out_channels=(32, 64), layers_per_block=1, sample_size=8, in_channels=4,
        out_channels=4, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=32,
        attention_head_dim=2, norm_num_groups=8,
    )  # fmt: skip
    keep = torch.ones(2, 5, dtype=torch.bool)
    keep[1, 2:] = False
    return model.eval(), {
        "sample": _seeded(2, 4, 8, 8),
        "timestep": torch.tensor(500),
        "encoder_hidden_states": _seeded(2, 5, 32, seed=2),
        "encoder_attention_mask": keep,
        "return_dict": False,
    }


def sd3() -> Made:
    torch.manual_seed(0)
    model = diffusers.SD3Transformer2DModel(
        sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=16,
        num_attention_heads=2, joint_attention_dim=32, caption_projection_dim=32,
        pooled_projection_dim=32, out_channels=4, pos_embed_max_size=8,
    )  # fmt: skip
    return model.eval(), {
        "hidden_states": _seeded(2, 4, 8, 8),
        "encoder_hidden_states": _seeded(2, 5, 32, seed=2),
        "pooled_projections": _seeded(2, 32, seed=3),
        "timestep": torch.tensor([500, 500]),
        "return_dict": False,
    }


def cogvideox() -> Made:
    torch.manual_seed(0)
    model = diffusers.CogVideoXTransformer3DModel(
        num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=4,
        time_embed_dim=8, text_embed_dim=32, num_layers=2, sample_width=8, sample_height=8,
        sample_frames=5, patch_size=2, max_text_seq_length=6,
    )  # fmt: skip
    return model.eval(), {
        "hidden_states": _seeded(1, 2, 4, 8, 8),
        "encoder_hidden_states": _seeded(1, 6, 32, seed=2),
        "timestep": torch.tensor([500]),
        "return_dict": False,
    }


def vae() -> Made:
    """An image VAE, whose one attention layer has a single wide head."""
    torch.manual_seed(0)
    model = diffusers.AutoencoderKL(
        block_out_channels=(8, 16), down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=4, latent_channels=4,
    )  # fmt: skip
    return model.eval(), {"sample": _seeded(1, 3, 16, 16), "return_dict": False}


def difference(made: Made, backend: str, **config: object) -> float:
    """Largest difference from the same model in one process, relative to the largest value."""
    from motet.kernels import dispatch

    model, inputs = made
    with torch.no_grad():
        expected = model(**inputs)[0].clone()
        dispatch.use(model, backend)
        model.enable_parallelism(config=ContextParallelConfig(**config))
        out = model(**inputs)[0]
    return float((out - expected).abs().max() / expected.abs().max())


def gather_uneven(tensor: Tensor, dim: int, group: dist.ProcessGroup) -> Tensor:
    """diffusers' last step, which gloo does not do for uneven pieces."""
    whole = Group(group, tuple(range(dist.get_world_size(group))), dist.get_rank(group))
    lengths = gather_lengths(tensor.shape[dim], whole, tensor.device)
    return gather(tensor, dim, whole, lengths)


def main(rank: int, world: int, init: str, out: str) -> None:
    from motet.kernels import dispatch

    torch.set_num_threads(1)
    # diffusers takes the rank modulo the number of accelerators, which is none here.
    torch.accelerator.device_count = lambda: 1
    dist.init_process_group("gloo", init_method=f"file://{init}", rank=rank, world_size=world)
    context_parallel._all_gather_anything = gather_uneven
    dispatch.register()
    ring, ulysses = {"ring_degree": world}, {"ulysses_degree": world}
    odd_ring = ring | {"ring_anything": True}
    cases: dict[str, Callable[[], float]] = {
        "wan ulysses": lambda: difference(wan(4), "motet", **ulysses),
        "wan ring": lambda: difference(wan(4), "motet", **ring),
        "wan odd ring": lambda: difference(wan(), "motet", **odd_ring),
        "wan int8 ring": lambda: difference(wan(4), "motet_int8", **ring),
        "flux ring": lambda: difference(flux(), "motet", **ring),
        "flux odd ring": lambda: difference(flux(2, 15, 7), "motet", **odd_ring),
        "flux three heads ulysses": lambda: difference(flux(3), "motet", **ulysses),
        "qwen ring": lambda: difference(qwen(False), "motet", **ring),
        "qwen padded ring": lambda: difference(qwen(True), "motet", **ring),
        "qwen padded ulysses": lambda: difference(qwen(True), "motet", **ulysses),
        "qwen int8 padded ring": lambda: difference(qwen(True), "motet_int8", **ring),
    }
    Path(out).write_text(json.dumps({name: run() for name, run in cases.items()}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
