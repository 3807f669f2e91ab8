"""`/v1/chat/completions`: OpenAI's chat on any pipeline that takes prompts."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response, StreamingResponse

from ..components.errors import MotetError
from ..components.frames import Completed, Frame, TextDelta, ToolCall, Usage
from .auth import Principal
from .chatrequest import ChatRequest
from .problems import of_error
from .server import Server, principal_of, server_of

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
            self.logprobs += [token_logprob(token, value) for token, value in frame.logprobs]
            return {"content": frame.text} if frame.text else None
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


def token_logprob(token: str, value: float) -> Json:
    """A token's log probability as OpenAI writes it."""
    entry = {"token": token, "logprob": value, "bytes": list(token.encode())}
    return {**entry, "top_logprobs": []}


@router.post("/v1/chat/completions", response_model=None)
async def complete(
    body: ChatRequest,
    server: Annotated[Server, Depends(server_of)],
    asker: Annotated[Principal, Depends(principal_of)],
) -> Response:
    """Answer a conversation, whole or as server-sent events."""
    pipeline = server.find(body.model, accepts=["Prompt"])
    prompt = await body.prompt(server)
    head: Json = {
        "id": "chatcmpl-" + secrets.token_hex(12),
        "created": int(time.time()),
        "model": pipeline.name,
        "system_fingerprint": None,
    }
    runs = [pipeline.ask(prompt, key=asker.name) for _ in range(body.n)]
    if not body.stream:
        answers = [await whole(run) for run in runs]
        return JSONResponse(completion(head, answers, logprobs=body.logprobs))
    first = await anext(runs[0], None)
    events = stream(head, body, first, runs)
    return StreamingResponse(events, media_type="text/event-stream")


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
) -> AsyncIterator[str]:
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
    finally:
        for run in runs:
            await run.aclose()


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
