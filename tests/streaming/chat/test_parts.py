"""Pictures, clips, recordings and documents in chats, with the official client and by hand."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import openai
import pytest
from PIL import Image as Picture
from tinymodels import save

from motet.pipelines import build
from motet.pipelines.graph import Graph
from motet.pipelines.spec import PipelineSpec
from motet.streaming.app import create_app
from motet.streaming.chat import parts as chatparts
from motet.streaming.server import Server
from motet.streaming.settings import Settings

pytestmark = pytest.mark.timeout(60)


def graph(name: str, nodes: dict[str, Any], *edges: str) -> Graph:
    spec = {"name": name, "nodes": nodes, "edges": list(edges)}
    return build(PipelineSpec.model_validate(spec))


def repeating() -> list[Graph]:
    return [
        graph("chat", {"a": {"use": "hearfake:Repeat"}}, "input -> a -> output"),
        graph("hear", {"a": {"use": "hearfake:Hear"}}, "input -> a -> output"),
    ]


@asynccontextmanager
async def serving(graphs: list[Graph], folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    server = Server.make(graphs, Settings(data_dir=folder))
    app = create_app(server)
    # The pipelines alone: what takes files would start the database of jobs, too.
    async with AsyncExitStack() as stack:
        for pipeline in server.pipelines.values():
            await stack.enter_async_context(pipeline)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            yield http
    assert not list((folder / "uploads").glob("*")), "nothing of a request is left"


def png(width: int = 64, height: int = 64, shade: int = 0) -> bytes:
    file = io.BytesIO()
    Picture.fromarray(np.full((height, width, 3), shade, np.uint8)).save(file, "PNG")
    return file.getvalue()


def clip(path: Path, seconds: int = 4) -> bytes:
    with av.open(str(path), "w") as out:
        stream = out.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for n in range(seconds * 5):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), n * 8, np.uint8), "rgb24")
            for packet in stream.encode(frame):
                out.mux(packet)
        for packet in stream.encode():
            out.mux(packet)
    return path.read_bytes()


def url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def image(data: bytes, detail: str = "auto") -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url(data), "detail": detail}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


async def said(http: httpx.AsyncClient, *parts: dict[str, Any], **more: Any) -> str:
    body = {"messages": [{"role": "user", "content": list(parts)}]} | more
    answer = await http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


async def test_pictures_keep_their_places_and_their_detail(tmp_path: Path) -> None:
    data = png()
    async with serving(repeating(), tmp_path) as http:
        found = await said(http, text("one"), image(data, "low"), text("two"), image(data, "high"))
    assert found == f"one\ntwo<{len(data)} low 3 0><{len(data)} high 7 0>"


async def test_clips_become_frames_and_their_sound_is_written_in(tmp_path: Path) -> None:
    data = clip(tmp_path / "c.mp4")
    part = {
        "type": "video_url",
        "video_url": {"url": url(data, "video/mp4"), "fps": 1, "detail": "low", "transcribe": True},
    }
    async with serving(repeating(), tmp_path) as http:
        found = await said(http, text("what?"), part)
    assert found.startswith(f"what?\n(The clip's sound: heard {len(data)} bytes)")
    assert found.count("<") == 4
    assert found.count(" low 5 1>") == 4


async def test_recordings_and_documents_become_text(tmp_path: Path) -> None:
    sound = base64.b64encode(b"RIFF" + bytes(40)).decode()
    recording = {"type": "input_audio", "input_audio": {"data": sound, "format": "wav"}}
    note = {
        "type": "file",
        "file": {"file_data": url("Zwölf €".encode(), "text/plain"), "filename": "n.txt"},
    }
    scan = io.BytesIO()
    Picture.new("RGB", (300, 400), "white").save(scan, "PDF")
    pdf = {"type": "file", "file": {"file_data": base64.b64encode(scan.getvalue()).decode()}}
    async with serving(repeating(), tmp_path) as http:
        found = await said(http, recording, note, pdf)
    assert found.startswith("heard 44 bytes\n[n.txt]\nZwölf €\n[document]<")
    assert " high " in found


async def test_files_sent_along_are_named_by_parts(tmp_path: Path) -> None:
    data = png()
    part = {"type": "image_url", "image_url": {"url": "attachment:shot"}}
    request = {"messages": [{"role": "user", "content": [text("see"), part]}]}
    async with serving(repeating(), tmp_path) as http:
        fields = {"request": json.dumps(request)}
        files = {"shot": ("shot.png", data)}
        answer = await http.post("/v1/chat/completions", data=fields, files=files)
        content = answer.json()["choices"][0]["message"]["content"]
        assert content == f"see<{len(data)} auto 3 0>"
        wrong = await http.post("/v1/chat/completions", json=request)
    assert wrong.status_code == 400
    assert "no file 'shot' came with the request" in wrong.json()["error"]["message"]


async def test_what_parts_bring_in_is_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = png(300, 300)
    monkeypatch.setattr(chatparts, "MAX_PARTS_BYTES", 3 * len(data))
    part = {"type": "image_url", "image_url": {"url": "attachment:shot"}}
    async with serving(repeating(), tmp_path) as http:
        for count, status in ((3, 200), (4, 400)):
            request = {"messages": [{"role": "user", "content": [part] * count}]}
            fields, files = {"request": json.dumps(request)}, {"shot": ("shot.png", data)}
            answer = await http.post("/v1/chat/completions", data=fields, files=files)
            assert answer.status_code == status
    assert "all parts together" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"type": "video_url", "video_url": {"url": url(b"no clip")}}, "can't be read as video"),
        ({"type": "video_url", "video_url": {"url": "data:,", "fps": 99}}, "fps"),
        ({"type": "input_audio", "input_audio": {"data": "!"}}, "base64 is broken"),
        ({"type": "input_audio", "input_audio": {"format": "wav"}}, "data"),
        ({"type": "file", "file": {}}, "one of file_data and file_id"),
        ({"type": "file", "file": {"file_data": url(b"\0\1\2")}}, "are no picture"),
        ({"type": "file", "file": {"file_data": url(b"%PDF-1.7 broken")}}, "damaged"),
        ({"type": "image_url", "image_url": {"url": "data:text/plain,x"}}, "no data URL"),
        (
            {"type": "video_url", "video_url": {"url": "https://10.0.0.1/a.mp4"}},
            "not a public one",
        ),
        ({"type": "video_url", "video_url": {"url": "file:///etc/passwd"}}, "scheme https"),
    ],
)
async def test_bad_parts_say_what_is_wrong(
    tmp_path: Path, part: dict[str, Any], words: str
) -> None:
    async with serving(repeating(), tmp_path) as http:
        body = {"messages": [{"role": "user", "content": [part]}]}
        answer = await http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"request": "{}", "model": "chat"}, "model"),
        ({"request": ["{}", "{}"]}, "request"),
    ],
)
async def test_a_form_holds_one_request_and_no_other_field(
    tmp_path: Path, fields: dict[str, Any], param: str
) -> None:
    async with serving(repeating(), tmp_path) as http:
        files = {"a": ("a.png", png(), "image/png")}
        answer = await http.post("/v1/chat/completions", data=fields, files=files)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


async def test_recordings_need_a_pipeline_that_hears(tmp_path: Path) -> None:
    part = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    async with serving(repeating()[:1], tmp_path) as http:
        body = {"messages": [{"role": "user", "content": [part]}]}
        answer = await http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert "nothing here transcribes files" in answer.json()["error"]["message"]


async def test_likeliest_tokens_and_picture_tokens_are_told(tmp_path: Path) -> None:
    async with serving(repeating(), tmp_path) as http:
        body = {"messages": [{"role": "user", "content": "a"}], "logprobs": True}
        answer = await http.post("/v1/chat/completions", json=body | {"top_logprobs": 2})
    value = answer.json()
    (entry,) = value["choices"][0]["logprobs"]["content"]
    assert [one["token"] for one in entry["top_logprobs"]] == ["x", "y"]
    assert value["usage"]["prompt_tokens_details"]["image_tokens"] == 5


async def test_the_official_client_talks_to_a_vision_model(tmp_path: Path) -> None:
    save("smolvlm", tmp_path / "model")
    model = {"model": str(tmp_path / "model")}
    nodes = {
        "encoder": {"use": "vision/encoder", **model},
        "llm": {"use": "llm/hf", **model, "options": {"context_tokens": 1024}},
    }
    made = graph("vision", nodes, "input -> encoder -> llm -> output")
    async with serving([made], tmp_path) as http:
        client = openai.AsyncOpenAI(
            api_key="x", base_url="http://localhost/v1", http_client=http, max_retries=0
        )
        content: Any = [text("See"), image(png(90, 60)), image(png(90, 60)), image(png(shade=9))]
        asked: dict[str, Any] = {
            "model": "vision",
            "messages": [{"role": "user", "content": content}],
            "max_tokens": 8,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": 2,
        }
        whole = await client.chat.completions.create(**asked)
        stream = await client.chat.completions.create(
            **asked, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        few = await client.chat.completions.create(**asked, extra_body={"image_tokens": 12})
        bad = {**asked, "messages": [{"role": "user", "content": [image(b"nothing")]}]}
        with pytest.raises(openai.BadRequestError, match="are no picture"):
            await client.chat.completions.create(**bad)
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert streamed == whole.choices[0].message.content
    assert whole.choices[0].logprobs is not None
    assert whole.choices[0].logprobs.content is not None
    assert len(whole.choices[0].logprobs.content) == 8
    assert whole.usage is not None
    assert few.usage is not None
    details: Any = whole.usage.prompt_tokens_details
    assert details.image_tokens > 12
    fewer: Any = few.usage.prompt_tokens_details
    assert fewer.image_tokens == 12
    again = chunks[-1].usage
    assert again is not None
    assert again.total_tokens == whole.usage.total_tokens
    assert again.prompt_tokens_details is not None
    assert 0 < (again.prompt_tokens_details.cached_tokens or 0) < again.prompt_tokens
