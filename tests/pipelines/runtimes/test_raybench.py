"""The benchmark of Ray beside workers: it counts every frame, of both ends."""

from __future__ import annotations

import pytest

from motet.pipelines.runtimes import runtime_of
from motet.pipelines.runtimes.raybench import Pace, echoing, pace


@pytest.mark.timeout(60)
async def test_every_frame_of_every_round_is_measured() -> None:
    made, found = runtime_of("workers", echoing()), Pace("workers")
    await made.start()
    try:
        for _ in range(2):
            await pace(made, found, sessions=3, seconds=0.2)
    finally:
        await made.close()
    assert len(found.took) == 60
    assert all(took > 0 for took in found.took)
    assert found.caller_s > 0
    assert found.replica_s > 0
    assert found.row().startswith("| workers | ")
