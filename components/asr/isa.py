"""Which instructions CTranslate2's own loops use on a CPU."""

from __future__ import annotations

import os
import re
from pathlib import Path

_VARIABLE = "CT2_FORCE_CPU_ISA"
_NEEDED = frozenset({"avx512f", "avx512cd", "avx512vl", "avx512bw", "avx512dq", "avx512_vnni"})


def prefer_avx512(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Let CTranslate2 use AVX-512 where the CPU has it, and say whether it may.

    By itself it stops at AVX2, since early AVX-512 processors slow down under it; those with VNNI
    don't to speak of, and softmax, GELU and quantization get faster. It is read once in a process,
    before the first model, from the environment, where a user's own word stands.
    """
    if _VARIABLE not in os.environ and flags(cpuinfo) >= _NEEDED:
        os.environ[_VARIABLE] = "AVX512"
    return os.environ.get(_VARIABLE) == "AVX512"


def flags(cpuinfo: Path) -> frozenset[str]:
    """The features of the first processor, as Linux lists them; none where it doesn't."""
    try:
        found = re.search(r"^flags\s*:(.*)$", cpuinfo.read_text(), re.MULTILINE)
    except OSError:
        return frozenset()
    return frozenset(found[1].split()) if found else frozenset()
