"""`/v1/images/…` driven by OpenAI's own client, on a small whole model."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import tinydiffusion
from openai import OpenAI
from PIL import Image
from serving import serving

from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, postgres: str) -> Iterator[str]:
    folder = tinydiffusion.clips(tmp_path_factory.mktemp("model"))
    options = {"steps": 4, "width": 32, "height": 32, "window_ms": 0}
    node = {"use": "diffusion/image", "model": str(folder), "options": options}
    spec = {"name": "images", "nodes": {"image": node}, "edges": ["input -> image -> output"]}
    graph = build(PipelineSpec.model_validate(spec))
    data = tmp_path_factory.mktemp("data")
    with serving(graph, data_dir=data, database_url=postgres) as where:
        yield where


@pytest.fixture
def client(address: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as made:
        yield made


def opened(text: str | None) -> Image.Image:
    assert text is not None
    return Image.open(io.BytesIO(base64.b64decode(text)))


def png(color: tuple[int, int, int] = (200, 30, 30)) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (40, 30), color).save(out, "PNG")
    return out.getvalue()


def test_pictures_of_seeds_in_every_format(client: OpenAI) -> None:
    seeded: dict[str, Any] = {"seed": 7, "guidance_skip": {"interval": [0, 0.5]}}
    two = client.images.generate(prompt="a cat", model="gpt-image-1", n=2, extra_body=seeded)
    one = client.images.generate(
        prompt="a cat", output_format="webp", output_compression=80, size="32x32", extra_body=seeded
    )
    assert two.data is not None
    assert one.data is not None
    pictures = [opened(item.b64_json) for item in two.data]
    assert [picture.format for picture in pictures] == ["PNG", "PNG"]
    assert (two.size, two.output_format, two.background) == ("32x32", "png", "opaque")
    told = [item.model_extra["motet"] for item in two.data if item.model_extra]
    assert [one["seed"] for one in told] == [7, 8]
    assert [(one["rows_saved"], one["rows_total"]) for one in told] == [(2, 8)] * 2
    webp = opened(one.data[0].b64_json)
    assert webp.format == "WEBP"
    found, (first, second) = (
        np.asarray(webp.convert("RGB"), int),
        [np.asarray(picture, int) for picture in pictures],
    )
    # The pictures are noise, which WebP keeps badly; still it is the first one and no other.
    assert np.abs(found - first).mean() < np.abs(found - second).mean() * 0.6
    assert two.usage is not None
    assert two.usage.input_tokens == two.usage.input_tokens_details.text_tokens > 0


def test_a_url_holds_the_picture_itself(client: OpenAI) -> None:
    made = client.images.generate(
        prompt="a cat", response_format="url", output_format="jpeg", quality="high"
    )
    assert made.data is not None
    url = made.data[0].url or ""
    assert url.startswith("data:image/jpeg;base64,")
    assert opened(url.split(",")[1]).format == "JPEG"
    assert made.data[0].model_extra is not None
    assert made.data[0].model_extra["motet"]["steps"] == 6


def test_partial_pictures_are_streamed(client: OpenAI) -> None:
    stream = client.images.generate(
        prompt="a cat", stream=True, partial_images=2, n=1, extra_body={"seed": 3, "steps": 6}
    )
    events = list(stream)
    kinds = [event.type for event in events]
    assert kinds == ["image_generation.partial_image"] * 2 + ["image_generation.completed"]
    partial, last = events[0], events[-1]
    assert partial.type == "image_generation.partial_image"
    assert last.type == "image_generation.completed"
    assert [event.partial_image_index for event in events[:2]] == [0, 1]  # pyright: ignore[reportAttributeAccessIssue]
    assert opened(partial.b64_json).size == opened(last.b64_json).size == (32, 32)
    whole = client.images.generate(prompt="a cat", extra_body={"seed": 3, "steps": 6})
    assert whole.data is not None
    assert whole.data[0].b64_json == last.b64_json


def test_an_edit_starts_from_the_picture(client: OpenAI) -> None:
    asked: dict[str, Any] = {"seed": 5, "strength": 0.25}
    edited = client.images.edit(image=("red.png", png()), prompt="a cat", extra_body=asked)
    other = client.images.edit(image=("b.png", png((0, 0, 255))), prompt="a cat", extra_body=asked)
    assert edited.data is not None
    assert other.data is not None
    assert edited.data[0].model_extra is not None
    assert edited.data[0].model_extra["motet"]["steps"] == 1
    assert edited.data[0].b64_json != other.data[0].b64_json
    events = list(
        client.images.edit(image=("red.png", png()), prompt="a cat", stream=True, extra_body=asked)
    )
    assert [event.type for event in events] == ["image_edit.completed"]
    with pytest.raises(openai.BadRequestError, match="mask"):
        client.images.edit(image=png(), mask=png(), prompt="a cat")
    with pytest.raises(openai.BadRequestError, match="are no picture"):
        client.images.edit(image=b"no picture", prompt="a cat")


def test_an_edit_as_json_is_that_of_a_form(client: OpenAI, address: str) -> None:
    asked = {"prompt": "a cat", "seed": 5, "strength": 0.5}
    url = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    route = f"{address}/v1/images/edits"
    answer = httpx.post(route, json={**asked, "images": [{"image_url": url}]}, timeout=20)
    form = client.images.edit(image=("red.png", png()), prompt="a cat", extra_body=asked)
    assert form.data is not None
    assert answer.json()["data"][0]["b64_json"] == form.data[0].b64_json
    for images in ([], [{"image_url": url}] * 2, [{"image_url": "https://a.b/c.png"}]):
        refused = httpx.post(route, json={**asked, "images": images})
        assert refused.status_code == 400
        assert "images" in refused.json()["error"]["message"]


def test_every_fault_of_a_request_is_told_at_once(address: str) -> None:
    wrong = {"n": 11, "size": "big", "background": "transparent", "seed": -1, "colour": "red"}
    for path, more in (("generations", {}), ("edits", {"images": [{"image_url": "x"}]})):
        answer = httpx.post(f"{address}/v1/images/{path}", json={"prompt": "a", **wrong, **more})
        error = answer.json()["error"]
        assert answer.status_code == 400
        assert all(f"{name}: " in error["message"] for name in wrong), error["message"]


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({"size": "big"}, "size", "WIDTHxHEIGHT"),
        ({"size": "33x32"}, None, "multiples of 16"),
        ({"background": "transparent"}, "background", "transparent"),
        ({"output_format": "svg"}, "output_format", "svg"),
        ({"output_compression": 50}, "output_compression", "jpeg and webp"),
        ({"style": "vivid"}, "style", "style"),
        ({"n": 11}, "n", "less than or equal to 10"),
        ({"partial_images": 2}, "partial_images", "goes with stream"),
        ({"colour": "red"}, "colour", "Extra inputs"),
        ({"guidance_skip": {"every": 0}}, "options", "greater than or equal to 1"),
        ({"stream": True, "steps": 500}, "steps", "1 to 100"),
    ],
)
def test_what_cannot_be_is_refused(
    address: str, body: dict[str, Any], param: str | None, message: str
) -> None:
    asked = {"prompt": "a cat", **body}
    response = httpx.post(f"{address}/v1/images/generations", json=asked, timeout=20)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert message in error["message"]
    if param is not None and error["param"] is not None:
        assert error["param"] == param


async def test_hanging_up_ends_the_work_and_frees_the_model(address: str) -> None:
    async with httpx.AsyncClient(base_url=address, timeout=20) as http:
        body = {"prompt": "a cat", "steps": 100, "n": 10, "stream": True, "progress": True}
        async with http.stream("POST", "/v1/images/generations", json=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data:") and json.loads(line[5:])["done"] > 0:
                    break
        with pytest.raises(httpx.ReadTimeout):
            await http.post("/v1/images/generations", json={**body, "stream": False}, timeout=0.3)
        answer = await asyncio.wait_for(
            http.post("/v1/images/generations", json={"prompt": "a cat", "steps": 1}), 10
        )
    assert answer.status_code == 200
