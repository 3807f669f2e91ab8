"""Block-scaled formats against their specifications and torch's own types."""

import math

import pytest
import torch
from torch import Tensor

from motet.kernels.microscale import (
    FORMATS,
    FP4_VALUES,
    MXFP4,
    MXFP8,
    NVFP4,
    MicroFormat,
    dequantise,
    e8m0_value,
    fp4_code,
    fp4_value,
    pack_fp4,
    quantise,
    unpack_fp4,
)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_e8m0_is_torchs() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    expected = codes.view(torch.float8_e8m0fnu).float()
    torch.testing.assert_close(e8m0_value(codes), expected, rtol=0, atol=0, equal_nan=True)


def test_fp4_takes_the_nearest_value_and_the_even_code_on_a_tie() -> None:
    x = torch.linspace(-8, 8, 3201)
    got = fp4_value(fp4_code(x))
    grid = torch.tensor(sorted({s * v for v in FP4_VALUES for s in (1, -1)}))
    nearest = (x.clamp(-6, 6)[:, None] - grid).abs().amin(1)
    torch.testing.assert_close((got - x.clamp(-6, 6)).abs(), nearest, rtol=0, atol=1e-6)
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -0.75, -5.0])
    assert fp4_value(fp4_code(ties)).tolist() == [0, 1, 1, 2, 2, 4, 4, -1, -4]


def test_first_code_lies_in_the_low_half() -> None:
    codes = torch.tensor([[1, 2, 15, 0]], dtype=torch.uint8)
    assert pack_fp4(codes).tolist() == [[0x21, 0x0F]]
    every = torch.arange(256, dtype=torch.uint8)
    assert torch.equal(pack_fp4(unpack_fp4(every)), every)
    with pytest.raises(ValueError, match="must be even"):
        pack_fp4(codes[:, :3])


@pytest.mark.parametrize("form", [MXFP8, MXFP4])
def test_mx_scale_is_the_exponent_of_the_largest_value(form: MicroFormat) -> None:
    """OCP section 6.3: X = 2^(floor(log2(max)) - emax)."""
    x = torch.zeros(4, 32)
    x[:, 7] = torch.tensor([1.0, 1.99, 6.0, 3e-5])
    scales = e8m0_value(quantise(x, form).scales)[:, 0]
    emax = 8 if form is MXFP8 else 2
    expected = [2.0 ** (math.floor(math.log2(v)) - emax) for v in (1.0, 1.99, 6.0, 3e-5)]
    assert scales.tolist() == expected


@pytest.mark.parametrize(
    ("form", "relative"), [(MXFP8, 0.04), (MXFP4, 0.13), (NVFP4, 0.11)], ids=lambda v: str(v)
)
def test_round_trip(form: MicroFormat, relative: float) -> None:
    decades = 2 if form is NVFP4 else 3
    x = normal(16, 100) * torch.logspace(-decades, decades, 16)[:, None]
    back = dequantise(quantise(x, form))
    assert back.shape == x.shape
    assert float((back - x).abs().sum(1).div(x.abs().sum(1)).max()) < relative


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda f: f.name)
def test_representable_values_are_kept(form: MicroFormat) -> None:
    row = torch.tensor([*FP4_VALUES, *(-v for v in FP4_VALUES)]).repeat(2)
    x = torch.stack((row, row)) * 4
    torch.testing.assert_close(dequantise(quantise(x, form)), x, rtol=1e-6, atol=0)


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda f: f.name)
def test_storage_is_what_the_format_says(form: MicroFormat) -> None:
    packed = quantise(normal(8, 320), form)
    extra = 4 if form is NVFP4 else 0
    assert packed.nbytes == 320 * (form.element_bits + 8 / form.block) + extra


def test_nvfp4_uses_the_whole_range_of_its_scales() -> None:
    x = normal(8, 64)
    packed = quantise(x, NVFP4)
    assert packed.scales.view(torch.float8_e4m3fn).float().max() == 448


@pytest.mark.parametrize("form", [MXFP8, MXFP4])
def test_a_broken_value_breaks_its_block_alone(form: MicroFormat) -> None:
    for bad in (math.nan, math.inf):
        x = normal(1, 96)
        x[0, 40] = bad
        back = dequantise(quantise(x, form))
        assert back[0, 32:64].isnan().all()
        assert back[0, :32].isfinite().all()
        assert back[0, 64:].isfinite().all()


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda f: f.name)
@pytest.mark.parametrize("shape", [(3, 0), (0, 64), (2, 3, 33)])
def test_odd_and_empty_shapes(form: MicroFormat, shape: tuple[int, ...]) -> None:
    assert dequantise(quantise(normal(*shape), form)).shape == shape
    assert (dequantise(quantise(torch.zeros(2, 48), form)) == 0).all()
