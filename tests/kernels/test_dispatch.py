"""Our attention inside diffusers' models, by their own dispatcher."""

import importlib.util
import json
import logging
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest
import torch

pytest.importorskip("diffusers")

from diffusers.models import attention_dispatch as host
from torch import Tensor, nn

from motet.kernels import dispatch
from motet.kernels.request import Precision

SCRIPT = Path(__file__).with_name("dispatch_models.py")
spec = importlib.util.spec_from_file_location("dispatch_models", SCRIPT)
assert spec is not None
assert spec.loader is not None
models = importlib.util.module_from_spec(spec)
spec.loader.exec_module(models)
flux, qwen, unet, wan = models.flux, models.qwen, models.unet, models.wan
sd3, cogvideox, vae = models.sd3, models.cogvideox, models.vae

pytestmark = pytest.mark.timeout(60)
MODELS = {
    "wan": wan,
    "flux": flux,
    "qwen": lambda: qwen(masked=True),
    "unet": unet,
    "sd3": sd3,
    "cogvideox": cogvideox,
    "vae": vae,
}


@pytest.fixture(autouse=True, scope="module")
def registered() -> None:
    dispatch.register()


def run(model: nn.Module, inputs: dict[str, object]) -> Tensor:
    with torch.no_grad():
        return model(**inputs)[0]


def relative(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().sum() / b.abs().sum())


@pytest.mark.parametrize("name", MODELS)
def test_full_precision_is_diffusers_own(name: str) -> None:
    model, inputs = MODELS[name]()
    expected = run(model, inputs)
    assert dispatch.use(model, "motet") > 0
    torch.testing.assert_close(run(model, inputs), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("backend", ["motet_int8", "motet_fp8"])
def test_8_bits_are_near_and_not_the_same(name: str, backend: str) -> None:
    model, inputs = MODELS[name]()
    expected = run(model, inputs)
    dispatch.use(model, backend)
    got = run(model, inputs)
    assert 0 < relative(got, expected) < 0.02
    dispatch.use(model, None)
    assert torch.equal(run(model, inputs), expected)


def test_use_leaks_into_no_other_model() -> None:
    """diffusers' own `set_attention_backend` would: it sets a process-wide default."""
    model, inputs = flux()
    other, _ = flux()
    active = host._AttentionBackendRegistry.get_active_backend()[0]
    expected = run(other, inputs)
    dispatch.use(model, "motet_int8")
    assert host._AttentionBackendRegistry.get_active_backend()[0] == active
    assert torch.equal(run(other, inputs), expected)


def test_part_of_a_model_can_have_its_own_backend() -> None:
    model, inputs = wan()
    expected = run(model, inputs)
    dispatch.use(model, "motet_int8")
    everywhere = relative(run(model, inputs), expected)
    dispatch.use(model, None)
    dispatch.use(model.blocks[1], "motet_int8")
    partly = relative(run(model, inputs), expected)
    assert 0 < partly < everywhere


def test_diffusers_own_calls_know_the_names() -> None:
    model, inputs = flux()
    expected = run(model, inputs)
    default = host._AttentionBackendRegistry.get_active_backend()[0]
    try:
        model.set_attention_backend("motet_int8")
        assert relative(run(model, inputs), expected) > 0
        model.reset_attention_backend()
        with host.attention_backend("motet"):
            torch.testing.assert_close(run(model, inputs), expected, rtol=0, atol=2e-6)
    finally:
        host._AttentionBackendRegistry.set_active_backend(default)


def test_registering_again_changes_nothing() -> None:
    before = list(host.AttentionBackendName)
    dispatch.register()
    assert list(host.AttentionBackendName) == before
    assert len({one.value for one in before}) == len(before)


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(ValueError, match=r"'motet_int3' is unknown; known: .*motet, motet_fp8"):
        dispatch.use(nn.Linear(1, 1), "motet_int3")


def call(*shape: int, name: str = "motet_int8", **arguments: object) -> Tensor:
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(*shape, generator=g) for _ in range(3))
    return host.dispatch_attention_fn(q, k, v, backend=host.AttentionBackendName(name), **arguments)


def test_a_head_too_large_falls_back_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    dispatch._told.clear()
    with caplog.at_level(logging.WARNING, "motet.kernels.dispatch"):
        first = call(1, 9, 1, 512)
        call(1, 9, 1, 512)
    expected = call(1, 9, 1, 512, name="motet")
    assert torch.equal(first, expected)
    assert len(caplog.records) == 1
    assert "head_dim 512 is over 256" in caplog.text
    assert not torch.equal(call(1, 9, 1, 160), call(1, 9, 1, 160, name="motet"))


@pytest.mark.parametrize("name", ["motet", "motet_int8"])
def test_a_key_mask_of_two_axes_is_one_of_four(name: str) -> None:
    keep = torch.arange(9) < torch.tensor([[4], [9]])
    flat = call(2, 9, 2, 64, name=name, attn_mask=keep)
    wide = call(2, 9, 2, 64, name=name, attn_mask=keep[:, None, None])
    assert torch.equal(flat, wide)
    assert not torch.equal(flat[0], call(2, 9, 2, 64, name=name)[0])


def test_arguments_that_can_not_be_honoured_are_refused() -> None:
    with pytest.raises(ValueError, match=r"dropout_p must be 0, got 0\.1"):
        call(1, 9, 2, 64, dropout_p=0.1)
    g = torch.randn(1, 9, 4, 64), torch.randn(1, 9, 2, 64), torch.randn(1, 9, 2, 64)
    names = host.AttentionBackendName
    with pytest.raises(ValueError, match="need enable_gqa"):
        host.dispatch_attention_fn(*g, backend=names("motet"))
    out = host.dispatch_attention_fn(*g, backend=names("motet"), enable_gqa=True)
    assert out.shape == (1, 9, 4, 64)


@cache
def parallel_findings() -> dict[str, float]:
    """Largest difference over two ranks, of models under diffusers' context parallelism."""
    with tempfile.TemporaryDirectory() as folder:
        outs = [f"{folder}/out{rank}" for rank in (0, 1)]
        ranks = [
            subprocess.Popen(
                [sys.executable, str(SCRIPT), str(rank), "2", f"{folder}/init", out],
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank, out in enumerate(outs)
        ]
        said = [one.communicate(timeout=280)[1] for one in ranks]
        assert [one.returncode for one in ranks] == [0, 0], said[0][-2500:]
        found = [json.loads(Path(out).read_text()) for out in outs]
    return {name: max(rank[name] for rank in found) for name in found[0]}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name",
    [
        "wan ulysses", "wan ring", "wan odd ring", "flux ring", "flux odd ring",
        "flux three heads ulysses", "qwen ring", "qwen padded ring", "qwen padded ulysses",
    ],
)  # fmt: skip
def test_context_parallel_models_are_one_process(name: str) -> None:
    """Among them the padded prompt under a ring, which diffusers' own backends get wrong."""
    assert parallel_findings()[name] < 5e-6


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["wan int8 ring", "qwen int8 padded ring"])
def test_context_parallel_in_8_bits(name: str) -> None:
    assert 0 < parallel_findings()[name] < 0.05


def test_any_precision_has_a_name() -> None:
    assert dispatch.named(Precision("int8", "fp8")) == "motet_int8"
    name = dispatch.named(Precision("int8"))
    assert name == dispatch.named(Precision("int8")) == "motet_int8_full"
    outs = [call(1, 40, 2, 64, name=one) for one in (name, "motet_int8", "motet")]
    assert relative(outs[0], outs[2]) < relative(outs[1], outs[2])
