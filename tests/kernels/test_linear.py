"""Linear layers in few bits."""

import pytest
import torch
from torch import Tensor

from motet.kernels.linear import LINEAR_FORMATS, LinearFormat, quantise_weight, quantised_linear


def inputs(rows: int = 33, dim: int = 96, out: int = 40) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(rows, dim, generator=g) * torch.logspace(-2, 2, rows)[:, None]
    return x, torch.randn(out, dim, generator=g), torch.randn(out, generator=g)


BUDGET = {"int8": 0.016, "fp8": 0.065, "mxfp8": 0.067, "mxfp4": 0.24, "nvfp4": 0.22}


@pytest.mark.parametrize("form", LINEAR_FORMATS)
def test_error_per_token_stays_in_its_budget(form: LinearFormat) -> None:
    """A loud token must not drown the quiet ones, so the error is taken row by row."""
    x, weight, _ = inputs()
    if form == "nvfp4":
        x = x / x.abs().amax(1, keepdim=True)
    expected = x.double() @ weight.double().T
    got = quantised_linear(x, quantise_weight(weight, form))
    error = (got - expected).abs().sum(1) / expected.abs().sum(1)
    assert float(error.max()) < BUDGET[form]
    assert float(error.max()) > 1e-4


@pytest.mark.parametrize("form", LINEAR_FORMATS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_shape_dtype_and_bias(form: LinearFormat, dtype: torch.dtype) -> None:
    x, weight, bias = (t.to(dtype) for t in inputs(rows=6))
    packed = quantise_weight(weight, form)
    flat = quantised_linear(x, packed, bias)
    assert flat.dtype == dtype
    assert torch.equal(quantised_linear(x.view(2, 3, 96), packed, bias).view(6, 40), flat)
    bare = quantised_linear(x.float(), packed)
    torch.testing.assert_close(flat.float(), bare + bias.float(), rtol=0.01, atol=0.1)


def test_int8_sums_are_exact() -> None:
    """Codes of +-127 over 4096 channels overflow float32's 24 bits of integers."""
    signs = torch.randint(0, 2, (20, 4096), generator=torch.Generator().manual_seed(0)) * 2 - 1
    x, weight = signs.float(), signs[:8].float()
    got = quantised_linear(x, quantise_weight(weight, "int8"))
    expected = signs.double() @ signs[:8].double().T
    torch.testing.assert_close(got.double(), expected, rtol=1e-6, atol=1e-3)


def test_weights_take_the_bytes_of_their_format() -> None:
    weight = torch.randn(64, 128)
    sizes = {form: quantise_weight(weight, form).nbytes for form in LINEAR_FORMATS}
    assert sizes == {
        "int8": 64 * 128 + 64 * 4,
        "fp8": 64 * 128 + 64 * 4,
        "mxfp8": 64 * 128 + 64 * 4,
        "mxfp4": 64 * 64 + 64 * 4,
        "nvfp4": 64 * 64 + 64 * 8 + 4,
    }


def test_errors_say_what_is_possible() -> None:
    with pytest.raises(ValueError, match="'int4' is unknown; known: int8, fp8, mxfp8"):
        quantise_weight(torch.zeros(2, 2), "int4")
    with pytest.raises(ValueError, match=r"must be \(out, in\), got \(2,\)"):
        quantise_weight(torch.zeros(2), "fp8")
