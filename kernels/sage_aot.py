"""The attention kernel's variants compiled for Hopper, for the bench and for the tests.

The constants here are those that `sage_triton.attend` passes for such a call.
"""

import inspect
from collections.abc import Collection
from dataclasses import dataclass

from .aot import MachineCode, compile_for
from .request import MASK_KINDS, MaskKind
from .sage_triton import attend_kernel, tile_for

TRITON_TYPES = {"int8": "*i8", "fp8": "*fp8e4nv", "full": "*bf16"}


@dataclass(frozen=True, slots=True)
class Variant:
    qk: str
    pv: str
    dim: int
    mask: MaskKind = "none"
    causal: bool = False

    @property
    def name(self) -> str:
        extra = ("" if self.mask == "none" else f"+{self.mask}") + (
            "+causal" if self.causal else ""
        )
        return f"qk {self.qk} pv {self.pv} d{self.dim}{extra}"


VARIANTS = (
    Variant("int8", "fp8", 64),
    Variant("int8", "fp8", 128),
    Variant("int8", "fp8", 256),
    Variant("fp8", "fp8", 128),
    Variant("int8", "full", 128),
    Variant("full", "fp8", 128),
    Variant("int8", "fp8", 96),
    Variant("int8", "fp8", 128, "bool"),
    Variant("int8", "fp8", 128, "additive"),
    Variant("int8", "fp8", 128, causal=True),
    Variant("int8", "fp8", 256, "bool"),
)


def compile_attention(
    variant: Variant, capability: int = 90, ones: Collection[str] = ()
) -> MachineCode:
    """`ones` names run-time arguments that are 1: Triton makes constants of them."""
    tile = tile_for(variant.dim, variant.mask)
    constants: dict[str, int | bool] = {
        "DIM": variant.dim,
        "BLOCK_D": max(64, 1 << (variant.dim - 1).bit_length()),
        "BLOCK_M": tile.m,
        "BLOCK_N": tile.n,
        "MASK": MASK_KINDS.index(variant.mask),
        "CAUSAL": variant.causal,
        "QK_CODES": variant.qk != "full",
        "PV_FP8": variant.pv == "fp8",
        "SHIFT": variant.qk != "full",
        "SNAP": False,
    }
    signature = {name: kind for name, kind in _signature(variant).items() if name not in ones}
    return compile_for(
        attend_kernel,
        signature,
        constants | dict.fromkeys(ones, 1),
        capability,
        tile.warps,
        tile.stages,
        {"v_len"},
    )


def _signature(variant: Variant) -> dict[str, str]:
    special = {
        "q_ptr": TRITON_TYPES[variant.qk],
        "k_ptr": TRITON_TYPES[variant.qk],
        "v_ptr": TRITON_TYPES[variant.pv],
        "out_ptr": "*bf16",
        "mask_ptr": "*u8" if variant.mask == "bool" else "*fp32",
        "scale_log2": "fp32",
    }
    names = [name for name in inspect.signature(attend_kernel.fn).parameters if name.islower()]
    return {name: special.get(name, "*fp32" if name.endswith("_ptr") else "i32") for name in names}
