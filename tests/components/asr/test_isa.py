"""AVX-512 is asked for where the CPU has it, and a user's own word stands."""

from __future__ import annotations

import os

import pytest

from motet.components.asr.isa import prefer_avx512

ZEN4 = "fpu avx2 avx512f avx512cd avx512vl avx512bw avx512dq avx512_vnni"
SKYLAKE = "fpu avx2 avx512f avx512cd avx512vl avx512bw avx512dq"


@pytest.mark.parametrize(
    ("flags", "before", "after"),
    [
        (ZEN4, None, "AVX512"),
        (SKYLAKE, None, None),
        ("fpu avx2", None, None),
        (ZEN4, "AVX2", "AVX2"),
    ],
)
def test_what_the_environment_says_then(tmp_path, monkeypatch, flags, before, after):
    # Set first, so that what was there before comes back behind the test.
    monkeypatch.setenv("CT2_FORCE_CPU_ISA", before or "")
    if before is None:
        monkeypatch.delenv("CT2_FORCE_CPU_ISA")
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t:\n")
    assert prefer_avx512(tmp_path / "cpuinfo") is (after == "AVX512")
    assert os.environ.get("CT2_FORCE_CPU_ISA") == after


def test_without_a_list_of_features_nothing_is_asked(tmp_path, monkeypatch):
    monkeypatch.delenv("CT2_FORCE_CPU_ISA", raising=False)
    assert not prefer_avx512(tmp_path / "none")
