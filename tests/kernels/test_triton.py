"""Triton kernels without a GPU: in the interpreter, and compiled ahead of time for Hopper."""

import inspect
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

triton = pytest.importorskip("triton")

from motet.kernels import norms_triton, quantise_triton  # noqa: E402
from motet.kernels.aot import MachineCode, compile_for  # noqa: E402
from motet.kernels.sage_aot import VARIANTS, Variant, compile_attention  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_every_kernel_in_the_interpreter() -> None:
    """Its own process: Triton reads TRITON_INTERPRET when it is first imported."""
    cases = Path(__file__).with_name("interpreter_cases.py")
    root = cases.parents[2]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(cases)]
    done = subprocess.run(
        command,
        cwd=root,
        env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"\d\d passed", done.stdout), done.stdout[-500:]
    assert "skipped" not in done.stdout


@cache
def code(variant: Variant) -> MachineCode:
    return compile_attention(variant)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_hopper_code_uses_8_bit_tensor_cores(variant: Variant) -> None:
    ops = code(variant).opcodes
    qk = {"int8": "IGMMA", "fp8": "QGMMA", "full": "HGMMA"}[variant.qk]
    pv = {"fp8": "QGMMA", "full": "HGMMA"}[variant.pv]
    assert ops[qk] > 0
    assert ops[pv] > 0
    wanted = {qk, pv}
    assert {op for op in ops if op.endswith(("GMMA", "MMA"))} == wanted


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_hopper_code_spills_nothing(variant: Variant) -> None:
    got = code(variant)
    assert got.spill_bytes == 0
    assert got.opcodes["STL"] == got.opcodes["LDL"] == 0
    assert got.registers <= 255
    assert got.shared_bytes <= 227 * 1024


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.pv == "fp8"], ids=lambda v: v.name)
def test_probabilities_are_cast_with_saturation(variant: Variant) -> None:
    ptx = code(variant).ptx
    casts = re.findall(r"cvt\.\S*e4m3x2\S*", ptx)
    assert casts
    assert all("satfinite" in cast for cast in casts)


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.pv == "fp8"], ids=lambda v: v.name)
def test_each_tile_is_summed_afresh(variant: Variant) -> None:
    """The first FP8 product of a tile ignores its accumulator (scale-d 0): two-level sums."""
    ptx = code(variant).ptx
    products = [line for line in ptx.splitlines() if "wgmma" in line and "e4m3.e4m3" in line]
    starts = [line for line in products if re.search(r"%rd\d+, 0, 1, 1", line)]
    assert starts


def test_values_and_keys_are_loaded_asynchronously() -> None:
    """Vectorised copies to shared memory; a masked byte load per value would not be one."""
    ops = code(Variant("int8", "fp8", 128)).opcodes
    assert ops["LDGSTS"] > 0
    assert ops["LDGSTS"] + ops["LDG"] < 64


@pytest.mark.parametrize(
    "ones", [("heads", "group"), ("q_len", "k_len", "heads", "group"), ("group", "mask_stride_k")]
)
def test_sizes_of_one_compile_too(ones: tuple[str, ...]) -> None:
    """Triton turns an argument of 1 into a constant, which takes other paths in its compiler."""
    got = compile_attention(Variant("int8", "fp8", 64, "bool", causal=True), ones=ones)
    assert got.opcodes["QGMMA"] > 0


@pytest.mark.parametrize(
    ("capability", "pv", "units"),
    [
        (80, "full", {"IMMA", "HMMA"}),
        (89, "fp8", {"IMMA", "QMMA"}),
        (100, "fp8", {"UTCIMMA", "UTCQMMA"}),
        (120, "fp8", {"IMMA", "QMMA"}),
    ],
)
def test_other_generations_take_the_same_kernel(capability: int, pv: str, units: set[str]) -> None:
    """Ampere without FP8, Ada, and both Blackwells; their 8-bit units, nothing spilled."""
    got = compile_attention(Variant("int8", pv, 128), capability)
    assert {op for op in got.opcodes if op.endswith("MMA")} == units
    assert got.spill_bytes == 0
    assert got.shared_bytes <= 99 * 1024


def _signature(kernel: object, special: dict[str, str]) -> dict[str, str]:
    names = [name for name in inspect.signature(kernel.fn).parameters if not name.isupper()]
    return {name: special.get(name, "*fp32" if name.endswith("_ptr") else "i32") for name in names}


def test_the_other_kernels_compile_for_hopper() -> None:
    rows = quantise_triton.quantise_rows_kernel
    signature = _signature(
        rows, {"x_ptr": "*bf16", "codes_ptr": "*i8", "limit": "fp32", "dot_scale": "fp32"}
    )
    queries = {"OUTER": 8, "REPEAT": 2, "GROUPS": 8, "INNER": 1, "CENTRE": False, "DOT": True}
    keys = {"OUTER": 1, "REPEAT": 16, "GROUPS": 4, "INNER": 2, "CENTRE": True, "DOT": False}
    for constants in (queries, keys):
        flags = {"INT8": True, "SNAP": False, "DIM": 128, "BLOCK_D": 128}
        got = compile_for(rows, signature, constants | flags, 90, 4, 3)
        assert got.spill_bytes == 0

    values = quantise_triton.quantise_values_kernel
    signature = _signature(values, {"v_ptr": "*bf16", "codes_ptr": "*fp8e4nv"})
    sizes = {"DIM": 128, "BLOCK_D": 128, "BLOCK": 64, "SNAP": False}
    got = compile_for(values, signature, sizes, 90, 4, 3)
    assert got.spill_bytes == 0
    assert "satfinite.e4m3x2" in got.ptx

    gate = norms_triton.gate_norm_kernel
    bf16 = {n: "*bf16" for n in inspect.signature(gate.fn).parameters if n.endswith("_ptr")}
    constants = {"CHANNELS": 3072, "BLOCK": 4096, "CENTRE": True, "WEIGHT": False, "BIAS": False}
    got = compile_for(gate, _signature(gate, bf16 | {"eps": "fp32"}), constants, 90, 8, 3)
    assert got.spill_bytes == 0

    turn = norms_triton.norm_rope_kernel
    signature = _signature(turn, {"x_ptr": "*bf16", "out_ptr": "*bf16", "eps": "fp32"})
    got = compile_for(turn, signature, {"HALF": 64, "BLOCK": 64, "STEP": 2, "GAP": 1}, 90, 1, 3)
    assert got.spill_bytes == 0
