"""Compile a Triton kernel for a GPU that is not here, and read its machine code.

ptxas and nvdisasm come inside Triton's wheel, so a machine without a GPU can show which
tensor-core instructions a kernel uses, its registers and its spills. It says nothing of speed.
"""

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .tritonlang import triton as tr


@dataclass(frozen=True, slots=True)
class MachineCode:
    """What ptxas made: `opcodes` counts SASS instructions by their first part, e.g. QGMMA."""

    ptx: str
    opcodes: Counter[str]
    registers: int
    spill_bytes: int
    shared_bytes: int


def compile_for(
    kernel: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, int | bool],
    capability: int,
    num_warps: int,
    num_stages: int,
    multiples: Collection[str] = (),
) -> MachineCode:
    """Compile for sm_`capability` (90 is Hopper).

    `signature` gives a Triton type per run-time argument ("*fp16", "i32", "fp32"); pointers and
    32-bit integers named as strides, and those in `multiples`, are taken as multiples of 16.
    """
    names: list[str] = kernel.arg_names
    full = dict(signature) | dict.fromkeys(constants, "constexpr")
    aligned = {
        (names.index(name),): [["tt.divisibility", 16]]
        for name, kind in signature.items()
        if kind.startswith("*") or "stride" in name or name in multiples
    }
    source = tr.compiler.ASTSource(
        fn=kernel, signature=full, constexprs=dict(constants), attrs=aligned
    )
    built = tr.compile(
        source,
        target=tr.backends.compiler.GPUTarget("cuda", capability, 32),
        options={"num_warps": num_warps, "num_stages": num_stages, "enable_fp_fusion": True},
    )
    registers, spills = _usage(built.asm["cubin"])
    return MachineCode(
        ptx=built.asm["ptx"],
        opcodes=_opcodes(built.asm["cubin"]),
        registers=registers,
        spill_bytes=spills,
        shared_bytes=built.metadata.shared,
    )


def _opcodes(cubin: bytes) -> Counter[str]:
    text = _tool("nvdisasm", ["-c"], cubin)
    found = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ )?\s*([A-Z][A-Z0-9]*)", text)
    return Counter(found)


def _usage(cubin: bytes) -> tuple[int, int]:
    """Registers a thread, and bytes of stack, where ptxas puts what it spills."""
    text = _tool("cuobjdump", ["-res-usage"], cubin)
    registers, stack = re.search(r"REG:(\d+)", text), re.search(r"STACK:(\d+)", text)
    if registers is None or stack is None:
        raise RuntimeError(f"cuobjdump -res-usage gave no registers or stack: {text[:200]!r}")
    return int(registers[1]), int(stack[1])


def _tool(name: str, options: list[str], cubin: bytes) -> str:
    path = Path(tr.__file__).parent / "backends" / "nvidia" / "bin" / name
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        command = [str(path), *options, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed with {done.returncode}: {done.stderr.strip()[:400]}")
    return done.stdout
