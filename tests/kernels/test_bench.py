"""The bench runs on a CPU, measures errors truly, and says what it could not run."""

import pytest
import torch

from motet.kernels import bench
from motet.kernels.benchcases import Case, biased_qkv
from motet.kernels.costs import Cost


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_prints_a_row_for_every_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--device", "cpu", "--length", "32", "--repeats", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"torch {torch.__version__}, cpu: ")
    rows = {line[:36].strip(): line[36:] for line in lines[2:]}
    assert {
        "attention int8 qk, fp8 pv",
        "attention sdpa",
        "gate+residual+norm+modulate",
        "qk norm + rope",
        "linear fp8",
        "round trip nvfp4",
    } <= set(rows)
    assert "TFLOP/s" in rows["attention sdpa"]
    assert "GB/s" in rows["qk norm + rope"]
    assert "not run: flash2: flash_attn is not installed" in rows["attention flash2"]


def test_only_chooses_rows(capsys: pytest.CaptureFixture[str]) -> None:
    bench.main(["--device", "cpu", "--length", "32", "--repeats", "1", "--only", "rope"])
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_rates_and_errors_are_computed_from_the_case() -> None:
    exact = torch.ones(4)
    case = Case("x", "4", lambda: exact * 1.25, exact, Cost(10**9, 10**6), "compute")
    row = bench.measure(case, 3)
    assert row.relative_l1 == 0.25
    assert row.cosine == pytest.approx(1.0)
    assert row.median_ms is not None
    assert float(row.rate.split()[0]) == pytest.approx(1 / row.median_ms, rel=0.02, abs=1e-3)


def test_data_have_the_bias_and_outliers_that_they_claim() -> None:
    _, k, _ = biased_qkv(256, 128, 2)
    mean = k.mean(2).abs()
    assert (mean > 3 * k.std(2)).float().mean() > 0.2
    assert mean.max() > 30
    again = biased_qkv(256, 128, 2)[1]
    assert torch.equal(again, k)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_ranks_compare_ring_and_ulysses(capsys: pytest.CaptureFixture[str]) -> None:
    """From float32 the quantised ring sends about a quarter of what an all-gather does."""
    assert bench.main(["--ranks", "2", "--length", "128", "--repeats", "1"]) == 0
    rows = {line[:24].strip(): line.split() for line in capsys.readouterr().out.splitlines()}
    assert len(rows) == 5
    sent = {name: float(row[row.index("MiB") - 1]) for name, row in rows.items()}
    wrong = {name: float(row[-1]) for name, row in rows.items()}
    assert sent["ring full"] == sent["all-gather + sdpa"]
    assert 0.24 < sent["ring int8 + fp8"] / sent["ring full"] < 0.30
    assert wrong["ring full"] == wrong["ulysses full"] == 0.0
    assert 0 < wrong["ring int8 + fp8"] < 0.05
