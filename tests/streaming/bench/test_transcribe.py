"""`motet bench transcribe`: replicas share the cores, and memory counts where it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from motet.streaming.bench.machine import peak_bytes
from motet.streaming.bench.transcribe import Plan, _graph, errors
from motet.streaming.cli import main


def test_replicas_share_the_cores_and_nothing_else_changes() -> None:
    plain, shared = _graph(Plan(Path("a.wav"))), _graph(Plan(Path("a.wav"), replicas=4))
    asr = shared.nodes["asr"].spec
    assert (asr.scale.min_replicas, asr.scale.max_replicas) == (4, 4)
    assert asr.resources.cpus == (os.cpu_count() or 1) / 4
    assert shared.nodes["diarize"] == plain.nodes["diarize"]
    assert shared.edges == plain.edges
    assert asr.options == plain.nodes["asr"].spec.options


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--replicas", "2"], "use --runtime workers"),
        (["--replicas", "0", "--runtime", "workers"], "must be 1 at least"),
    ],
)
def test_what_cannot_be_measured_is_said(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "transcribe", "a.wav", *given])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_childs_peak_counts_even_when_it_is_over() -> None:
    before = peak_bytes()
    code = "import sys; b = bytearray(80 << 20); del b; print('.', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.read(1) == b"."
        grown = peak_bytes() - before
        child.communicate()
    assert grown > 80 << 20


@pytest.mark.parametrize(
    ("said", "heard", "language", "found"),
    [
        ("Mr. Hale's colour,\ntwenty of them!", "mister hale's color 20 of them", "en", (0.0, 0)),
        ("the red fox ran", "the fox ran", "en", (25.0, 1)),
        ("the red fox ran", "the read fox ran off", "en", (50.0, 0)),
        ("Die Farbe, grün!", "die farbe grün", "de", (0.0, 0)),
        ("er sagt color", "er sagt colour", "de", (33.33, 0)),
    ],
)
def test_errors_are_counted_as_whispers_authors_do(
    said: str, heard: str, language: str, found: tuple[float, int]
) -> None:
    assert errors(said, heard, language=language) == found
