"""Whole calls over a real socket with real models: a caller's voice in, a voice in the ear."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import soxr
import websockets

from motet.components.g711 import ulaw_decode, ulaw_encode
from motet.components.models import locate

from ...support.serving import ScriptedModel, listening, scripted_voice, serving
from .test_dialects import STARTS

hibari = pytest.importorskip("hibari")
whisper = pytest.importorskip("faster_whisper")

FRAME = 160  # samples in 20 ms
SHORT = "A motet is a piece of music for several voices."
LONG = (
    "A motet is a piece of music for several voices. Each voice sings words of its own, and "
    "together they make one whole. It began eight hundred years ago, in Paris. Singers stood in a "
    "circle around one big book."
)


class Phone:
    """A telephone at a carrier: speaks and plays in real time, 20 ms at a time, and echoes marks.

    `ear` is all that was played, int16 at 8 kHz.
    """

    def __init__(self, carrier: str, socket: websockets.ClientConnection) -> None:
        self.linear = carrier == "exotel"
        self.carrier = carrier
        self.socket = socket
        self.mouth: deque[np.ndarray[Any, Any]] = deque()
        self.ear: list[np.ndarray[Any, Any]] = []
        self.cleared_at: int | None = None
        self._queue: deque[np.ndarray[Any, Any] | str] = deque()
        self._chunk = 0

    def say(self, pcm: np.ndarray[Any, Any]) -> None:
        padded = np.pad(pcm, (0, -len(pcm) % FRAME))
        self.mouth.extend(np.split(padded, len(padded) // FRAME))

    async def call(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Hold the line for so long, or until something is so."""
        async with asyncio.TaskGroup() as group:
            receiving = group.create_task(self.receive())
            loop = asyncio.get_running_loop()
            start_s = loop.time()
            for number in range(int(seconds * 50)):
                await self.tick()
                if until():
                    break
                await asyncio.sleep(max(0.0, start_s + number * 0.02 - loop.time()))
            receiving.cancel()

    async def receive(self) -> None:
        async for text in self.socket:
            message = json.loads(text)
            match message["event"]:
                case "media":
                    data = base64.b64decode(message["media"]["payload"])
                    pcm = np.frombuffer(data, "<i2") if self.linear else ulaw_decode(data)
                    self._queue.append(pcm)
                case "mark":
                    self._queue.append(message["mark"]["name"])
                case "clear":
                    self.cleared_at = len(self.ear)
                    names = [one for one in self._queue if isinstance(one, str)]
                    self._queue.clear()
                    for name in names:
                        await self.echo(name)

    async def tick(self) -> None:
        spoken = self.mouth.popleft() if self.mouth else np.zeros(FRAME, np.int16)
        data = spoken.astype("<i2").tobytes() if self.linear else ulaw_encode(spoken)
        self._chunk += 1
        payload = base64.b64encode(data).decode()
        media = {"chunk": str(self._chunk), "timestamp": "0", "payload": payload}
        await self.send({"event": "media", "media": {"track": "inbound"} | media})
        await self.play()

    async def play(self) -> None:
        played = np.zeros(FRAME, np.int16)
        at = 0
        while self._queue and at < FRAME:
            first = self._queue.popleft()
            if isinstance(first, str):
                await self.echo(first)
                continue
            take = min(FRAME - at, len(first))
            played[at : at + take] = first[:take]
            at += take
            if take < len(first):
                self._queue.appendleft(first[take:])
        self.ear.append(played)

    async def echo(self, name: str) -> None:
        await self.send({"event": "mark", "streamSid": "MZ1", "mark": {"name": name}})

    async def send(self, message: dict[str, Any]) -> None:
        await self.socket.send(json.dumps(message))

    def silent_for(self, seconds: float) -> bool:
        """Whether the caller has heard something, and then nothing for so long."""
        recent = self.ear[-int(seconds * 50) :]
        spoke = any(np.abs(frame).max() > 500 for frame in self.ear)
        return spoke and not self._queue and all(np.abs(f).max() < 100 for f in recent)


@pytest.fixture(scope="module")
def say() -> Callable[[str], np.ndarray[Any, Any]]:
    voice = hibari.Hibari()

    def speak(text: str) -> np.ndarray[Any, Any]:
        speech = soxr.resample(np.clip(voice(text, seed=0), -1, 1), 24_000, 8_000)
        return (speech * 20_000).astype(np.int16)

    return speak


@pytest.fixture(scope="module")
def model() -> ScriptedModel:
    return ScriptedModel(SHORT)


@pytest.fixture(scope="module")
def address(model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with (
        listening(model.app) as served,
        serving(scripted_voice(served, tmp_path_factory.mktemp("voice"))) as url,
    ):
        yield url.replace("http", "ws", 1)


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


@functools.cache
def listener() -> Any:
    return whisper.WhisperModel(str(locate("whisper-tiny-en")), compute_type="int8", cpu_threads=1)


def heard_words(phone: Phone) -> list[str]:
    audio = soxr.resample(np.concatenate(phone.ear).astype(np.float32) / 32768, 8_000, 16_000)
    segments, _ = listener().transcribe(audio, beam_size=1)
    return words(" ".join(segment.text for segment in segments))


async def dial(carrier: str, socket: websockets.ClientConnection) -> Phone:
    phone = Phone(carrier, socket)
    await phone.send({"event": "connected", "protocol": "Call", "version": "1.0.0"})
    await phone.send(STARTS[carrier])
    return phone


@pytest.mark.slow
@pytest.mark.timeout(90)
@pytest.mark.parametrize("carrier", ["twilio", "exotel"])
async def test_a_caller_is_understood_and_hears_the_reply(
    carrier: str,
    address: str,
    model: ScriptedModel,
    say: Callable[[str], np.ndarray[Any, Any]],
) -> None:
    before = len(model.asked)
    model.reply = SHORT
    async with websockets.connect(f"{address}/v1/telephony/{carrier}") as socket:
        phone = await dial(carrier, socket)
        phone.say(say("What is the capital of France?"))
        await phone.call(40, until=lambda: phone.silent_for(1.5))
        await phone.send({"event": "stop", "stop": {"callSid": "CA1"}})
        await asyncio.wait_for(socket.wait_closed(), 5)
        assert socket.close_code == 1000
    question = model.asked[before][-1]["content"]
    assert {"capital", "france"} <= set(words(question))
    got = heard_words(phone)
    wanted = words(SHORT)
    assert sum(word in got for word in wanted) >= 0.85 * len(wanted), got


@pytest.mark.slow
@pytest.mark.timeout(90)
async def test_cutting_in_stops_the_voice_and_the_model_knows_what_was_heard(
    address: str, model: ScriptedModel, say: Callable[[str], np.ndarray[Any, Any]]
) -> None:
    before = len(model.asked)
    model.reply = LONG
    async with websockets.connect(f"{address}/v1/telephony/twilio") as socket:
        phone = await dial("twilio", socket)
        phone.say(say("What is a motet?"))
        await phone.call(20, until=lambda: any(np.abs(f).max() > 500 for f in phone.ear))
        await phone.call(3)
        phone.say(say("Wait, please stop now."))
        await phone.call(5, until=lambda: phone.cleared_at is not None)
        assert phone.cleared_at is not None
        heard = heard_words(phone)
        await phone.call(20, until=lambda: len(model.asked) > before + 1)
    said = next(m["content"] for m in model.asked[-1] if m["role"] == "assistant")
    assert 3 <= len(words(said)) < len(words(LONG))
    assert words(LONG)[: len(words(said))] == words(said)
    assert abs(len(words(said)) - len(heard)) <= 3, (said, heard)


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_pressed_keys_reach_the_model(address: str, model: ScriptedModel) -> None:
    before = len(model.asked)
    async with websockets.connect(f"{address}/v1/telephony/twilio") as socket:
        phone = await dial("twilio", socket)
        for digit in "42":
            await phone.send({"event": "dtmf", "dtmf": {"track": "inbound_track", "digit": digit}})
        await phone.call(20, until=lambda: len(model.asked) > before)
    assert "42" in model.asked[-1][-1]["content"]
