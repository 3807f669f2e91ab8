"""Expressive speech for tests: a server that writes codes, and a codec of SNAC's shape."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import torch
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from safetensors.torch import save_file
from snac import SNAC

from motet.streaming.bench.snac import CONFIG as REAL

# The shape of the 24 kHz codec with fewer channels: same strides, same receptive field.
CONFIG: dict[str, Any] = {**REAL, "encoder_dim": 4, "decoder_dim": 64}


def save_codec(folder: Path) -> Path:
    """A random model, as a user's folder would be."""
    torch.manual_seed(0)
    weights = {name: part.contiguous() for name, part in SNAC(**CONFIG).state_dict().items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


def written(frames: list[list[int]]) -> str:
    """Frames as the model writes them."""
    return "".join(
        f"<custom_token_{10 + 4096 * place + code}>"
        for frame in frames
        for place, code in enumerate(frame)
    )


class SpeechServer:
    """A `/completions` server that writes `frames` for every prompt."""

    def __init__(self, frames: list[list[int]], status: int = 200) -> None:
        self.frames = frames
        self.last = "[DONE]"
        self.status = status
        self.asked: list[dict[str, Any]] = []
        self.app = FastAPI()
        self.app.post("/v1/completions", response_model=None)(self.complete)

    async def complete(self, request: Request) -> Response:
        self.asked.append(await request.json())
        if self.status != 200:
            return JSONResponse({"error": {"message": "no room"}}, self.status)
        return StreamingResponse(self.stream(), media_type="text/event-stream")

    async def stream(self) -> AsyncIterator[str]:
        text = written(self.frames)
        for at in range(0, len(text), 13):
            yield f"data: {json.dumps({'choices': [{'text': text[at : at + 13]}]})}\n\n"
        if self.last:
            yield f"data: {self.last}\n\n"
