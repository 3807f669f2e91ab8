"""Leaving out the unconditional branch, on seven families: exact where it must be, and counted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import tinypipes
import torch
from diffusers import HeunDiscreteScheduler
from tinypipes import FAMILIES, Family
from torch import Tensor

from motet.components.diffusion.boundary import Boundary, replaced
from motet.components.diffusion.skip import GuidanceOptions, RowGuidance, Step
from motet.components.diffusion.steps import Steps
from motet.components.errors import BadInput

STEPS = 6
FULL, NONE = GuidanceOptions(), GuidanceOptions(interval=(0, 0))
LATE, EARLY = GuidanceOptions(interval=(0, 0.5)), GuidanceOptions(interval=(0.5, 1))

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.usefixtures("one_thread"),
]


@pytest.fixture(scope="module", params=list(FAMILIES))
def family(request: pytest.FixtureRequest) -> Family:
    return tinypipes.made(request.param)


def run(family: Family, options: Sequence[GuidanceOptions], **call: object) -> tuple[Tensor, list]:
    """Latents with one picture per options, and the rows that each spent."""
    rows = [RowGuidance(one) for one in options]
    with Boundary(family.pipe, rows, Steps(family.pipe.scheduler)).attached():
        latents = family(len(rows), **call)
    return latents, [(row.spent.rows_run, row.spent.rows_total) for row in rows]


@pytest.mark.parametrize("rows", [1, 2])
def test_nothing_skipped_is_bit_identical(family: Family, rows: int) -> None:
    plain = family(rows)
    latents, spent = run(family, [FULL] * rows)
    assert torch.equal(latents, plain)
    assert spent == [(2 * STEPS, 2 * STEPS)] * rows


@pytest.mark.parametrize("rows", [1, 2])
def test_everything_skipped_is_guidance_off(family: Family, rows: int) -> None:
    off = family(rows, scale=1.0)
    latents, spent = run(family, [NONE] * rows)
    assert torch.equal(latents, off)
    assert spent == [(STEPS, 2 * STEPS)] * rows


@pytest.mark.parametrize("half", [LATE, EARLY], ids=["late", "early"])
def test_half_the_steps_save_a_quarter_of_the_rows(family: Family, half: GuidanceOptions) -> None:
    latents, spent = run(family, [half] * 3)
    assert spent == [(9, 12)] * 3
    assert not torch.equal(latents, family(3))


def test_pictures_of_one_batch_skip_each_for_itself(family: Family) -> None:
    latents, spent = run(family, [FULL, LATE, NONE])
    assert spent == [(12, 12), (9, 12), (6, 12)]
    whole, off = family(3), family(3, scale=1.0)
    late, _ = run(family, [LATE] * 3)
    for row, expected in enumerate((whole, late, off)):
        torch.testing.assert_close(latents[row], expected[row], atol=1e-4, rtol=1e-3)


def test_reusing_a_difference_that_stays_the_same_changes_nothing() -> None:
    """With a denoiser whose branches always differ alike, reuse is exact and leaving out is not."""
    wan = tinypipes.made("wan")
    with replaced(wan.pipe.transformer, "forward", Constant()):
        exact = wan(2)
        off, _ = run(wan, [LATE] * 2)
        kept, spent = run(wan, [GuidanceOptions(interval=(0, 0.5), outside="reuse")] * 2)
        often, _ = run(wan, [GuidanceOptions(every=3)] * 2)
    assert spent == [(9, 12)] * 2
    torch.testing.assert_close(kept, exact)
    torch.testing.assert_close(often, exact)
    assert (off - exact).abs().max() > 0.1


class Constant:
    """A denoiser that returns a multiple of its input, plus the mean of the prompt."""

    def __call__(
        self, hidden_states: Tensor, timestep: Tensor, encoder_hidden_states: Tensor, **_: object
    ) -> tuple[Tensor]:
        offset = encoder_hidden_states.mean((1, 2)).view(-1, 1, 1, 1, 1)
        return (0.1 * hidden_states + 10 * offset,)


def test_every_second_step_runs_both_branches(family: Family) -> None:
    _, spent = run(family, [GuidanceOptions(every=2), FULL])
    assert spent == [(9, 12), (12, 12)]


def test_branches_that_agree_end_guidance(family: Family) -> None:
    _, spent = run(family, [GuidanceOptions(agree=1.0)])
    assert spent[0][0] >= 11
    _, soon = run(family, [GuidanceOptions(agree=1e-6)])
    assert soon[0][0] < 12


def test_the_pipeline_is_left_as_it_was(family: Family) -> None:
    before, scheduler = family(1), family.pipe.scheduler
    run(family, [LATE])
    assert family.pipe.scheduler is scheduler
    assert torch.equal(family(1), before)


def test_noise_levels_bound_guidance() -> None:
    flux = tinypipes.made("flux")
    sigmas = [step.sigma for step in steps_of(flux)]
    low, high = sigmas[4], sigmas[1]
    assert low is not None
    assert high is not None
    assert low < high
    _, spent = run(flux, [GuidanceOptions(sigmas=(low, high))])
    assert spent == [(6 + 4, 12)]


def steps_of(family: Family) -> list[Step]:
    seen: list[Step] = []
    steps = Steps(family.pipe.scheduler, lambda step, *_: seen.append(step))
    with Boundary(family.pipe, [RowGuidance(FULL)], steps).attached():
        family(1)
    return seen


def test_noise_of_a_scheduler_without_sigmas() -> None:
    sd = tinypipes.made("sd")
    sigmas = [step.sigma or 0 for step in steps_of(sd)]
    sd.pipe.scheduler.set_timesteps(STEPS)
    products = sd.pipe.scheduler.alphas_cumprod[sd.pipe.scheduler.timesteps]
    expected = ((1 - products) / products).sqrt()
    torch.testing.assert_close(torch.tensor(sigmas), expected.float(), rtol=1e-4, atol=1e-5)


def test_second_order_schedulers_count_passes_not_timesteps() -> None:
    sdxl = tinypipes.made("sdxl")
    sdxl.pipe.scheduler = HeunDiscreteScheduler()
    passes = 2 * STEPS - 1
    assert len(steps_of(sdxl)) == passes
    _, spent = run(sdxl, [GuidanceOptions(interval=(0, 0.5))])
    assert spent == [(passes + passes // 2, 2 * passes)]


def test_branches_in_another_order_are_refused() -> None:
    wan = tinypipes.made("wan")
    encode = wan.pipe.encode_prompt
    wan.pipe.encode_prompt = lambda **call: tuple(reversed(encode(**call)))
    boundary = Boundary(wan.pipe, [RowGuidance(LATE)], Steps(wan.pipe.scheduler))
    swapped = wan.pipe.transformer.forward
    calls = wan.embeds(1)
    with boundary.attached():
        boundary._positive = calls["prompt_embeds"]
        with pytest.raises(BadInput, match="order"):
            wan(1)
    assert wan.pipe.transformer.forward == swapped


def test_options_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ValueError, match="start <= stop"):
        GuidanceOptions(interval=(0.8, 0.2))
    with pytest.raises(ValueError, match="low <= high"):
        GuidanceOptions(sigmas=(2.0, 1.0))
