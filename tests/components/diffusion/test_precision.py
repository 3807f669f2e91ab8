"""The precision policy: which layer uses what when, and that a run leaves the model as it was."""

from __future__ import annotations

import pytest
import tinypipes
import torch
from torch import Tensor

from motet.components.diffusion.boundary import Boundary
from motet.components.diffusion.precision import (
    Applied,
    Formats,
    PrecisionPolicy,
    PrecisionRule,
    Weights,
)
from motet.components.diffusion.skip import GuidanceOptions, RowGuidance, Step
from motet.components.diffusion.steps import Steps
from motet.components.errors import BadInput

INT8 = PrecisionRule(qk="int8", pv="fp8")
LINEAR = PrecisionRule(linear="fp8")

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def run(name: str, policy: PrecisionPolicy) -> tuple[Tensor, Tensor, Tensor, dict[str, int]]:
    """Latents before, under the policy, and after; layers by format."""
    family = tinypipes.made(name)
    before = family(2)
    applied = Applied(policy, family.pipe.transformer, Weights())
    rows = [RowGuidance(GuidanceOptions()) for _ in range(2)]
    boundary = Boundary(family.pipe, rows, Steps(family.pipe.scheduler), watchers=[applied])
    with boundary.attached(), applied.attached():
        under = family(2)
    return before, under, family(2), applied.used


def test_rules_cover_steps_and_layers_and_the_ends_stay_full() -> None:
    half = PrecisionRule(steps=(0.5, 1.0), layers=(0.0, 0.5), linear="int8")
    policy = PrecisionPolicy(rules=[INT8, half])
    table = [[policy.formats(Step(s, 6, None), layer, 6) for layer in range(6)] for s in range(6)]
    full, eight = Formats(), Formats("int8", "fp8")
    assert table[0] == table[5] == [full] * 6
    assert table[1] == [full, eight, eight, eight, eight, full]
    both = Formats("int8", "fp8", "int8")
    assert table[3] == [full, both, both, eight, eight, full]


@pytest.mark.parametrize("name", ["wan", "flux", "sd3", "qwen", "ltx"])
@pytest.mark.parametrize("rule", [INT8, LINEAR], ids=["attention", "linear"])
def test_low_precision_is_near_and_gone_afterwards(name: str, rule: PrecisionRule) -> None:
    before, under, after, used = run(name, PrecisionPolicy(rules=[rule]))
    assert torch.equal(before, after)
    assert not torch.equal(before, under)
    assert (under - before).abs().mean() / before.abs().mean() < 0.05
    low = sum(count for form, count in used.items() if form != "full/full/full")
    assert low == 4 * 2  # of six steps and four layers, without the outermost


def test_a_policy_that_reaches_nothing_is_refused() -> None:
    sd = tinypipes.made("sd")
    with pytest.raises(BadInput, match="no list of transformer blocks"):
        Applied(PrecisionPolicy(rules=[INT8]), sd.pipe.unet, Weights())
    with pytest.raises(ValueError, match="says nothing"):
        PrecisionRule(steps=(0, 1))
