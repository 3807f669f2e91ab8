"""`/openapi.json`: what FastAPI can't see of a route, told by the models that check it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

Json = dict[str, Any]
FILE: Json = {"type": "string", "contentMediaType": "application/octet-stream"}
FILES: Json = {"type": "array", "items": FILE, "minItems": 1}
_REF = "#/components/schemas/{model}"


def body(
    *, json: type[BaseModel] | None = None, form: Json | None = None, sdp: bool = False
) -> Json:
    """The `openapi_extra` of a route that reads its body itself, in any of these types."""
    content: Json = {}
    if json is not None:
        content["application/json"] = {"schema": _schema(json)}
    if form is not None:
        content["multipart/form-data"] = {"schema": form}
    if sdp:
        content["application/sdp"] = {"schema": {"type": "string"}}
    return {"requestBody": {"required": True, "content": content}}


def fields(kind: type[BaseModel], *, needed: bool = True, **files: Json) -> Json:
    """A form of the fields of `kind` and of files, which are all `needed` or none of them."""
    shape = kind.model_json_schema(ref_template=_REF)
    properties = {**shape.get("properties", {}), **files}
    required = [*shape.get("required", []), *(files if needed else ())]
    return {**shape, "properties": properties, "required": required}


def request_with(kind: type[BaseModel], **files: Json) -> Json:
    """A form of `kind` as JSON, in its field `request`, and files, which may have any names."""
    properties = {"request": as_text(kind), **files}
    return {"type": "object", "properties": properties, "additionalProperties": FILE}


def as_text(kind: type[BaseModel]) -> Json:
    """A field of a form that is JSON."""
    text = {"type": "string", "contentMediaType": "application/json"}
    return {**text, "contentSchema": _schema(kind)}


def answers(*types: str) -> Json:
    """What a route answers with, by media type: JSON objects, texts, or bytes."""
    return {"content": {name: {"schema": _of_type(name)} for name in types}}


def _of_type(name: str) -> Json:
    if name == "application/json":
        return {"type": "object"}
    return {"type": "string"} if name.startswith(("text/", "application/")) else FILE


def _schema(kind: type[BaseModel]) -> Json:
    """A reference to the schema of `kind`, with all that it refers to as `$defs`."""
    places, definitions = models_json_schema([(kind, "validation")], ref_template=_REF)
    return {**places[kind, "validation"], **definitions}


def install(app: FastAPI) -> None:
    """Put the schemas of such bodies where they are referred to, and tell of keys."""
    plain = app.openapi

    def openapi() -> Json:
        if app.openapi_schema is None:
            told = plain()
            parts = told.setdefault("components", {})
            for definitions in list(_lifted(told["paths"])):
                parts.setdefault("schemas", {}).update(definitions)
            parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            told["security"] = [{"key": []}, {}]
        return app.openapi_schema or {}

    app.openapi = openapi


def _lifted(value: Any) -> Iterator[Json]:
    """Every `$defs` in a document, taken out of it."""
    if isinstance(value, dict):
        found: Json = value  # pyright: ignore[reportUnknownVariableType]
        if "$defs" in found:
            yield found.pop("$defs")
        for one in found.values():
            yield from _lifted(one)
    elif isinstance(value, list):
        for one in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _lifted(one)
