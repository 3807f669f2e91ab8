"""Step caching: what is saved, that it is each picture's own, and that nothing outlives a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import tinypipes
import torch
from tinypipes import Family
from torch import Tensor

from motet.components.diffusion.boundary import Boundary
from motet.components.diffusion.caching import CacheOptions, Hits, StepCache
from motet.components.diffusion.skip import GuidanceOptions, RowGuidance, Step
from motet.components.diffusion.steps import Steps
from motet.components.errors import BadInput

STEPS = 12
FULL = GuidanceOptions()

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.usefixtures("one_thread"),
]


@pytest.fixture(scope="module", params=["wan", "sd3", "flux", "qwen", "ltx"])
def family(request: pytest.FixtureRequest) -> Family:
    return tinypipes.made(request.param)


def run(
    family: Family,
    options: Sequence[CacheOptions | None],
    guidance: GuidanceOptions = FULL,
    **call: Any,
) -> tuple[Tensor, list[Hits]]:
    rows = [RowGuidance(guidance) for _ in options]
    cache = StepCache(family.pipe.transformer, options)
    steps = Steps(family.pipe.scheduler)
    boundary = Boundary(family.pipe, rows, steps, watchers=[cache])
    with boundary.attached(), cache.attached():
        latents = family(len(rows), num_inference_steps=STEPS, **call)
    return latents, cache.hits


def error(found: Tensor, exact: Tensor) -> float:
    return float((found - exact).abs().sum() / exact.abs().sum())


@pytest.mark.parametrize("kind", ["timestep", "first_block"])
def test_a_threshold_of_zero_changes_nothing(family: Family, kind: Any) -> None:
    exact = family(2, num_inference_steps=STEPS)
    latents, hits = run(family, [CacheOptions(kind=kind, threshold=0)] * 2)
    assert torch.equal(latents, exact)
    assert [hit.calls_kept for hit in hits] == [0, 0]
    assert hits[0].blocks_run == hits[0].blocks_total == 2 * STEPS * tinypipes.LAYERS


@pytest.mark.parametrize("kind", ["timestep", "first_block"])
def test_a_higher_threshold_runs_fewer_blocks(family: Family, kind: Any) -> None:
    exact = family(1, num_inference_steps=STEPS)
    run_before, far = 10**9, 0.0
    for threshold in (0.02, 10.0):
        latents, (hits,) = run(family, [CacheOptions(kind=kind, threshold=threshold)])
        assert hits.blocks_run <= run_before
        run_before, far = hits.blocks_run, error(latents, exact)
    # At most three kept in a row, and the first and the last step always run.
    assert hits.calls_kept == 2 * 8
    assert far < 0.5


@pytest.mark.parametrize("kind", ["timestep", "first_block"])
def test_a_batch_decides_as_its_pictures_do_alone(family: Family, kind: Any) -> None:
    options = [CacheOptions(kind=kind, threshold=0.05), None, CacheOptions(kind=kind, threshold=10)]
    together, hits = run(family, options)
    assert hits[1].calls_kept == 0
    assert hits[2].calls_kept == 16
    exact = family(3, num_inference_steps=STEPS)
    torch.testing.assert_close(together[1], exact[1], atol=1e-4, rtol=1e-3)
    alike, all_hits = run(family, [options[2]] * 3)
    torch.testing.assert_close(together[2], alike[2], atol=1e-4, rtol=1e-3)
    assert all_hits[0].calls_kept == 16


@pytest.mark.parametrize(("order", "apart"), [(0, 1.0), (1, 0.0)])
def test_what_changes_evenly_is_carried_on(order: int, apart: float) -> None:
    """Blocks that add one more each step, every second step kept."""
    option = CacheOptions(threshold=10, most=1, warmup=2, order=order)
    cache = StepCache(tinypipes.made("wan").pipe.transformer, [option])
    base = torch.zeros(1, 3, 2)
    errors: list[float] = []
    for index in range(STEPS):
        cache.before(Step(index, STEPS, None), [("cond", 0)])
        cache._begin(base, base + 1)
        computes = bool(cache._compute[0])
        found = cache._end(base + index if computes else base)
        errors += [] if computes else [float((found - index).abs().max())]
    assert errors == pytest.approx([apart] * 5)


def test_guidance_that_comes_back_finds_nothing_stale() -> None:
    wan = tinypipes.made("wan")
    cache = CacheOptions(threshold=10, most=64, last=0)
    _, (hits,) = run(wan, [cache], GuidanceOptions(interval=(0.5, 1.0)))
    # 12 conditional calls with one computed; 6 unconditional ones with one computed.
    assert hits.calls_kept == 11 + 5


class Stop(Exception):
    """A request that fails in the middle."""


@pytest.mark.parametrize("kind", ["timestep", "first_block"])
def test_a_failed_request_leaves_nothing_to_the_next(kind: Any) -> None:
    wan = tinypipes.made("wan")
    options = [CacheOptions(kind=kind, threshold=0.2)]
    clean, _ = run(wan, options)

    def fail(pipe: Any, index: int, timestep: Any, tensors: dict[str, Tensor]) -> None:
        del pipe, index, timestep, tensors
        raise Stop

    for sides in (16, 32):
        with pytest.raises(Stop):
            run(wan, options, callback_on_step_end=fail, height=sides, width=sides, seed=9)
        after, _ = run(wan, options)
        assert torch.equal(after, clean)
    assert not any("forward" in vars(part) for part in wan.pipe.transformer.modules())


def test_a_unet_has_no_blocks_in_a_row() -> None:
    with pytest.raises(BadInput, match="UNet2DConditionModel"):
        StepCache(tinypipes.made("sd").pipe.unet, [CacheOptions()])
