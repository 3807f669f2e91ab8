"""The hop's benchmark: it counts every frame, and compares like with like."""

from __future__ import annotations

import pytest

from motet.pipelines.runtimes.hopbench import against_bare, measure, table


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_every_frame_is_measured() -> None:
    result = await measure(3, seconds=0.4)
    assert (result.sessions, result.frames) == (3, 60)
    assert 0 < result.p50_ms <= result.p99_ms
    assert result.client_cpu_us > 0
    assert result.server_cpu_us > 0
    assert table([result]).count("\n") == 2
    took = await against_bare(rounds=1)
    assert list(took) == ["unix", "unix, bare gRPC", "tcp", "tcp, bare gRPC"]
    assert all(value > 0 for value in took.values())
