"""`/v1/chat/completions`: OpenAI's chat on any pipeline that takes prompts."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError

from ...components.errors import BadInput, MotetError
from ...components.frames import Completed, Frame, Likeliest, TextDelta, ToolCall, Usage
from ..access.auth import Principal
from ..adapters import chosen
from ..described import answers, body, request_with
from ..hangup import while_connected
from ..problems import of_error
from ..server import Server, principal_of, server_of
from ..streamed import Streamed
from ..upload import Upload, received
from .parts import PartReader
from .request import ChatRequest

router = APIRouter()
Json = dict[str, Any]


@dataclass
class Answer:
    """One choice as it grows."""

    text: str = ""
    calls: dict[int, Json] = field(default_factory=dict[int, Json])
    logprobs: list[Json] = field(default_factory=list[Json])
    reason: str = "stop"
    usage: Usage = field(default_factory=Usage)

    def add(self, frame: Frame) -> Json | None:
        """Take a frame; the `delta` that it makes of a streamed choice, None if it makes none."""
        if isinstance(frame, TextDelta):
            self.text += frame.text
            self.logprobs += logprobs_of(frame)
            return {"content": frame.text} if frame.text or frame.logprobs else None
        if isinstance(frame, ToolCall):
            return self._call(frame)
        if isinstance(frame, Completed):
            self.reason, self.usage = frame.reason, frame.usage
        return None

    def _call(self, frame: ToolCall) -> Json | None:
        first = frame.index not in self.calls
        function = {"name": frame.name, "arguments": ""}
        call = self.calls.setdefault(
            frame.index, {"id": frame.call_id, "type": "function", "function": function}
        )
        call["function"]["arguments"] += frame.arguments
        if first:
            piece: Json = {"name": frame.name, "arguments": frame.arguments}
            head = {"index": frame.index, "id": frame.call_id, "type": "function"}
            return {"tool_calls": [{**head, "function": piece}]}
        if not frame.arguments:
            return None
        return {"tool_calls": [{"index": frame.index, "function": {"arguments": frame.arguments}}]}

    def message(self) -> Json:
        """The whole message."""
        calls = [self.calls[index] for index in sorted(self.calls)]
        message: Json = {
            "role": "assistant",
            "content": self.text if self.text or not calls else None,
            "refusal": None,
        }
        if calls:
            message["tool_calls"] = calls
        return message


def logprobs_of(frame: TextDelta) -> list[Json]:
    """The log probabilities of a frame's tokens as OpenAI writes them."""
    tops = frame.top or (Likeliest(),) * len(frame.logprobs)
    return [
        {**token_logprob(token, value), "top_logprobs": [token_logprob(*one) for one in top.tokens]}
        for (token, value), top in zip(frame.logprobs, tops, strict=True)
    ]


def token_logprob(token: str, value: float) -> Json:
    """A token and its log probability."""
    return {"token": token, "logprob": value, "bytes": list(token.encode())}


@router.post(
    "/v1/chat/completions",
    response_model=None,
    openapi_extra=body(json=ChatRequest, form=request_with(ChatRequest)),
    responses={200: answers("application/json", "text/event-stream")},
)
async def complete(
    request: Request,
    server: Annotated[Server, Depends(server_of)],
    asker: Annotated[Principal, Depends(principal_of)],
) -> Response:
    """Answer a conversation, whole or as server-sent events. The body is JSON, or a form with the
    JSON as its field "request" and files that parts name as "attachment:NAME"."""
    async with asked(request, server) as (body, uploads):
        pipeline, adapter = chosen(server, body.model, body.adapter)
        prompt = await body.prompt(PartReader(server, asker, uploads))
    prompt = replace(prompt, adapter=adapter)
    head: Json = {
        "id": "chatcmpl-" + secrets.token_hex(12),
        "created": int(time.time()),
        "model": f"{pipeline.name}:{adapter}" if adapter else pipeline.name,
        "system_fingerprint": None,
    }
    run = partial(pipeline.ask, prompt, key=asker.name, priority=asker.priority)
    runs = [run() for _ in range(body.n)]
    if not body.stream:
        answers = await while_connected(request, wholes(runs))
        return JSONResponse(completion(head, answers, logprobs=body.logprobs))
    first = await while_connected(request, anext(runs[0], None))
    events = stream(head, body, first, runs)
    return Streamed(events, "text/event-stream", events.aclose, *(run.aclose for run in runs))


@asynccontextmanager
async def asked(
    request: Request, server: Server
) -> AsyncGenerator[tuple[ChatRequest, dict[str, Upload]]]:
    """The request, and the files that came along, which are there while the context lasts.

    Raises:
        RequestValidationError: it isn't as it should be.
        BadInput: the form is broken.
    """
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        yield parsed(await request.body()), {}
        return
    folder = server.settings.data_dir / "uploads"
    async with received(request, folder, limit_bytes=server.settings.max_upload_bytes) as form:
        unknown = sorted({name for name, _ in form.fields} - {"request"})
        if unknown:
            raise BadInput(
                f"a form has files and a field `request` with JSON; got {', '.join(unknown)}",
                param=unknown[0],
            )
        if len(form.fields) > 1:
            raise BadInput(f"one `request` is needed, got {len(form.fields)}", param="request")
        yield parsed(dict(form.fields).get("request", "").encode()), dict(form.files)


def parsed(body: bytes) -> ChatRequest:
    """The JSON of a request, checked."""
    try:
        return ChatRequest.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        places = [{**fault, "loc": ("body", *fault["loc"])} for fault in faults]
        raise RequestValidationError(places) from error


async def wholes(runs: list[AsyncGenerator[Frame]]) -> list[Answer]:
    """Gather the answers, one after the other."""
    return [await whole(run) for run in runs]


async def whole(run: AsyncGenerator[Frame]) -> Answer:
    """Gather one answer."""
    answer = Answer()
    async with aclosing(run) as frames:
        async for frame in frames:
            answer.add(frame)
    return answer


def completion(head: Json, answers: list[Answer], *, logprobs: bool) -> Json:
    """The whole answer's object."""
    choices = [
        {
            "index": index,
            "message": answer.message(),
            "finish_reason": answer.reason,
            "logprobs": {"content": answer.logprobs, "refusal": None} if logprobs else None,
        }
        for index, answer in enumerate(answers)
    ]
    return {**head, "object": "chat.completion", "choices": choices, "usage": usage(answers)}


def usage(answers: list[Answer]) -> Json:
    """Tokens of all choices; the prompt counts once."""
    first = answers[0].usage
    written = sum(answer.usage.output_tokens for answer in answers)
    return {
        "prompt_tokens": first.input_tokens,
        "completion_tokens": written,
        "total_tokens": first.input_tokens + written,
        "prompt_tokens_details": {
            "cached_tokens": first.cached_tokens,
            "audio_tokens": 0,
            "image_tokens": first.image_tokens,
        },
    }


async def stream(
    head: Json, body: ChatRequest, first: Frame | None, runs: list[AsyncGenerator[Frame]]
) -> AsyncGenerator[str]:
    """The answer as events; a fault after the first byte is an event with `error`."""
    answers: list[Answer] = []
    try:
        for index, run in enumerate(runs):
            answer = Answer()
            answers.append(answer)
            yield chunk(head, index, {"role": "assistant", "content": ""})
            async with aclosing(run) as frames:
                if index == 0 and first is not None:
                    for event in pieces(head, index, answer, first, logprobs=body.logprobs):
                        yield event
                async for frame in frames:
                    for event in pieces(head, index, answer, frame, logprobs=body.logprobs):
                        yield event
            yield chunk(head, index, {}, reason=answer.reason)
        if body.wants_usage:
            yield sse({**head, "object": OBJECT, "choices": [], "usage": usage(answers)})
        yield "data: [DONE]\n\n"
    except MotetError as error:
        yield sse(json.loads(bytes(of_error(error).body)))


OBJECT = "chat.completion.chunk"


def pieces(head: Json, index: int, answer: Answer, frame: Frame, *, logprobs: bool) -> list[str]:
    """The events that a frame makes."""
    before = len(answer.logprobs)
    delta = answer.add(frame)
    fresh = answer.logprobs[before:] if logprobs else None
    return [chunk(head, index, delta, logprobs=fresh)] if delta is not None else []


def chunk(
    head: Json,
    index: int,
    delta: Json,
    *,
    reason: str | None = None,
    logprobs: list[Json] | None = None,
) -> str:
    """One event of one choice."""
    said = {"content": logprobs, "refusal": None} if logprobs is not None else None
    choice = {"index": index, "delta": delta, "finish_reason": reason, "logprobs": said}
    return sse({**head, "object": OBJECT, "choices": [choice]})


def sse(value: Json) -> str:
    """A server-sent event."""
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"
