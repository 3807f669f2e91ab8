"""`/openapi.json`: valid, of every route, and true: what it shows is what is taken and given."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import validate

pytest.importorskip("procrastinate")

from jobclients import graph

from motet.streaming.app import create_app
from motet.streaming.server import Server
from motet.streaming.settings import Settings

WITHOUT_BODY = ("/cancel", "/enable", "/hangup")
REF = "#/components/schemas/"


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return create_app(Server.make([graph("nothing", "Nothing")], Settings())).openapi()


def operations(told: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, way, one) for path, ways in told["paths"].items() for way, one in ways.items()]


def test_it_is_valid(told):
    validate(told)
    assert "$defs" not in str(told)


def test_every_route_says_what_it_takes_and_gives(told):
    for path, way, one in operations(told):
        assert one["description"], path
        if way in ("post", "patch") and not (path.endswith(WITHOUT_BODY) and "{" in path):
            assert one["requestBody"]["content"], path
        good = {code: answer for code, answer in one["responses"].items() if code.startswith("2")}
        assert good, path
        for answer in good.values():
            assert "content" in answer or path.endswith("/hangup"), path
            for media in answer.get("content", {}).values():
                assert media["schema"], path
        errors = set(one["responses"]) - set(good)
        assert {"400", "401", "429", "503", "default"} <= errors, path
        assert "422" not in errors, "invalid requests are 400s here"
        for code in errors:
            media = one["responses"][code]["content"]["application/json"]
            assert media["schema"] == {"$ref": f"{REF}Problem"}, path


@pytest.mark.parametrize(
    ("path", "media", "fields"),
    [
        ("/v1/jobs", "application/json", {"pipeline", "inputs", "webhook"}),
        ("/v1/jobs", "multipart/form-data", {"request", "file"}),
        ("/v1/jobs/cancel", "application/json", {"ids", "state", "all"}),
        ("/v1/chat/completions", "application/json", {"messages", "tools"}),
        ("/v1/chat/completions", "multipart/form-data", {"request"}),
        ("/v1/audio/transcriptions", "multipart/form-data", {"file", "language", "stream"}),
        ("/v1/audio/translations", "multipart/form-data", {"file", "prompt"}),
        ("/v1/images/generations", "application/json", {"prompt", "size"}),
        ("/v1/images/edits", "application/json", {"prompt", "images"}),
        ("/v1/images/edits", "multipart/form-data", {"prompt", "image"}),
        ("/v1/videos", "application/json", {"prompt", "seconds"}),
        ("/v1/videos", "multipart/form-data", {"prompt", "input_reference"}),
        ("/v1/embeddings", "application/json", {"input", "dimensions"}),
        ("/v1/audio/speech", "application/json", {"input", "voice"}),
        ("/v1/webhooks", "application/json", {"url", "events"}),
        ("/v1/realtime/calls", "multipart/form-data", {"sdp", "session"}),
    ],
)
def test_bodies_name_their_fields(told, path, media, fields):
    shape = told["paths"][path]["post"]["requestBody"]["content"][media]["schema"]
    if "$ref" in shape:
        shape = told["components"]["schemas"][shape["$ref"].removeprefix(REF)]
    assert fields <= set(shape["properties"])


def test_translations_show_only_what_they_take(told):
    content = told["paths"]["/v1/audio/translations"]["post"]["requestBody"]["content"]
    shape = content["multipart/form-data"]["schema"]["properties"]
    assert "stream" not in shape
    assert "diarized_json" not in shape["response_format"]["enum"]


def test_examples_fit_their_schemas(told):
    schemas = told["components"]["schemas"]
    found = [(name, one) for name, shape in schemas.items() for one in shape.get("examples", ())]
    assert {"JobRequest", "CancelRequest", "EndpointRequest"} <= {name for name, _ in found}
    for name, example in found:
        jsonschema.validate(example, {"$ref": f"{REF}{name}", "components": told["components"]})
