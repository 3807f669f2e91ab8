"""`/v1/videos` driven by OpenAI's own client, on a small whole model."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path

import av
import httpx
import numpy as np
import openai
import pytest
import tinydiffusion
from openai import OpenAI
from PIL import Image
from serving import serving

from motet.pipelines import Graph, build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.jobs import door
from motet.streaming.videos.coding import spritesheet, write_mp4

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def graph(folder: Path) -> Graph:
    options = {"steps": 2, "width": 32, "height": 32, "frames": 6, "fps": 6, "max_frames": 8}
    node = {"use": "diffusion/video", "model": str(folder), "options": options}
    spec = {"name": "videos", "nodes": {"video": node}, "edges": ["input -> video -> output"]}
    return build(PipelineSpec.model_validate(spec))


@pytest.fixture(scope="module", params=["jobs", "this process"])
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A server that keeps clips as jobs, and one without what jobs need."""
    made = graph(tinydiffusion.clips(tmp_path_factory.mktemp("model")))
    settings: dict[str, object] = {"data_dir": tmp_path_factory.mktemp("data")}
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "jobs":
            pytest.importorskip("procrastinate")
            settings["database_url"] = request.getfixturevalue("postgres")
        else:
            patch.setattr(door, "PACKAGES", ("no_such_package",))
        with serving(made, **settings) as where:
            yield where


@pytest.fixture
def client(address: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as made:
        yield made


def frames_of(data: bytes) -> tuple[list[np.ndarray], float]:
    with av.open(io.BytesIO(data)) as container:
        stream = container.streams.video[0]
        rate = float(stream.average_rate or 0)
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)], rate


def test_a_clip_is_asked_for_watched_and_fetched(client: OpenAI) -> None:
    video = client.videos.create_and_poll(prompt="a cat jumping", poll_interval_ms=50)
    assert video.status == "completed"
    assert (video.progress, video.size, video.seconds) == (100, "32x32", "1")
    assert video.completed_at is not None
    frames, rate = frames_of(client.videos.download_content(video.id).read())
    assert (len(frames), rate) == (6, 6.0)
    assert frames[0].shape == (32, 32, 3)
    small = client.videos.download_content(video.id, variant="thumbnail").read()
    assert Image.open(io.BytesIO(small)).size == (32, 32)
    sheet = client.videos.download_content(video.id, variant="spritesheet").read()
    assert Image.open(io.BytesIO(sheet)).size == (4 * 32, 2 * 32)


def test_seconds_set_the_length_and_the_rate_gives_way(client: OpenAI) -> None:
    video = client.videos.create_and_poll(
        prompt="a cat",
        seconds="4",
        size="64x32",
        poll_interval_ms=50,  # pyright: ignore[reportArgumentType]
    )
    assert (video.seconds, video.size) == ("4", "64x32")
    frames, rate = frames_of(client.videos.download_content(video.id).read())
    assert (len(frames), rate) == (8, 2.0)


def test_a_remix_keeps_the_seed_and_says_where_it_comes_from(client: OpenAI) -> None:
    first = client.videos.create_and_poll(
        prompt="a cat", poll_interval_ms=50, extra_body={"seed": 11}
    )
    second = client.videos.remix(first.id, prompt="a dog")
    second = client.videos.poll(second.id, poll_interval_ms=50)
    assert second.remixed_from_video_id == first.id
    assert second.prompt == "a dog"
    assert second.model_extra is not None
    assert second.model_extra["motet"]["seed"] == 11


def test_a_remix_starts_from_the_same_picture(client: OpenAI) -> None:
    out = io.BytesIO()
    Image.new("RGB", (32, 32), (250, 10, 10)).save(out, "PNG")
    asked = {"seed": 4, "strength": 0.5}
    reference = ("red.png", out.getvalue())
    first = client.videos.create_and_poll(
        prompt="a cat", input_reference=reference, poll_interval_ms=50, extra_body=asked
    )
    again = client.videos.remix(first.id, prompt="a cat")
    again = client.videos.poll(again.id, poll_interval_ms=50)
    made = [client.videos.download_content(one.id).read() for one in (first, again)]
    assert again.status == "completed"
    assert np.array_equal(frames_of(made[0])[0], frames_of(made[1])[0])


def test_a_clip_can_start_from_a_picture(client: OpenAI) -> None:
    out = io.BytesIO()
    Image.new("RGB", (32, 32), (250, 10, 10)).save(out, "PNG")
    asked = {"seed": 4, "strength": 0.5}
    video = client.videos.create_and_poll(
        prompt="a cat",
        input_reference=("red.png", out.getvalue()),
        poll_interval_ms=50,
        extra_body=asked,
    )
    assert video.status == "completed"
    assert video.model_extra is not None
    assert video.model_extra["motet"]["steps"] == 1


def test_clips_are_listed_page_by_page_and_deleted(client: OpenAI) -> None:
    made = [client.videos.create(prompt=f"cat {number}").id for number in range(3)]
    listed = [video.id for video in client.videos.list(limit=2, order="desc")]
    assert listed[:3] == made[::-1]
    upwards = client.videos.list(limit=100, order="asc")
    assert [video.id for video in upwards.data][-3:] == made
    for video_id in made:
        assert client.videos.delete(video_id).deleted
        with pytest.raises(openai.NotFoundError):
            client.videos.retrieve(video_id)


def test_faults_are_told_where_they_belong(client: OpenAI, address: str) -> None:
    failed = client.videos.create(prompt="a cat", size="33x32")  # pyright: ignore[reportArgumentType]
    deadline = time.monotonic() + 20
    while client.videos.retrieve(failed.id).status != "failed":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    told = client.videos.retrieve(failed.id)
    assert told.error is not None
    assert "multiples of 16" in told.error.message
    with pytest.raises(openai.ConflictError):
        client.videos.download_content(failed.id)
    with pytest.raises(openai.NotFoundError):
        client.videos.retrieve("video_none")
    for body in ({"prompt": ""}, {"prompt": "a", "size": "big"}, {"prompt": "a", "fast": 1}):
        assert httpx.post(f"{address}/v1/videos", json=body).status_code == 400
    wrong = {"prompt": "", "size": "big", "fps": 0, "fast": 1}
    told_all = httpx.post(f"{address}/v1/videos", json=wrong).json()["error"]["message"]
    assert all(f"{name}: " in told_all for name in wrong)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"frames": 9}, "frames must be 1 to 8, got 9"),
        ({"size": "8192x8192"}, "8192x8192 is more than"),
    ],
)
def test_what_no_run_could_do_is_refused_before_it_waits(
    address: str, asked: dict[str, object], said: str
) -> None:
    body = {"prompt": "a cat", **asked}
    refused = httpx.post(f"{address}/v1/videos", json=body)
    assert refused.status_code == 400
    assert said in refused.json()["error"]["message"]
    job = {"pipeline": "videos", "input": {"prompt": "a cat"}, "options": asked}
    made = httpx.post(f"{address}/v1/jobs", json=job)
    assert made.status_code == 404 or said in made.json()["error"]["message"]


def test_clips_as_files_play_back_as_they_were(tmp_path: Path) -> None:
    ramp = np.linspace(0, 255, 48, dtype=np.uint8)
    clip = np.broadcast_to(ramp[None, None, :, None], (5, 33, 48, 3)).copy()
    clip[2] = 255 - clip[2]
    write_mp4(tmp_path / "clip.mp4", clip, 12.5)
    frames, rate = frames_of((tmp_path / "clip.mp4").read_bytes())
    assert rate == 12.5
    assert frames[0].shape == (32, 48, 3)
    for found, exact in zip(frames, clip[:, :32], strict=True):
        assert np.abs(found.astype(int) - exact).mean() < 6
    sheet = np.asarray(Image.open(io.BytesIO(spritesheet(clip))))
    assert sheet.shape == (2 * 33, 4 * 48, 3)
    assert sheet[33:, 48:].max() < 12
