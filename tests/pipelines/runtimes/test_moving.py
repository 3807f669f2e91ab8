"""Standing runs leave replicas that drain: between turns, with nothing lost, doubled or cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from motet.components.base import Context, Setup
from motet.components.errors import Overloaded
from motet.components.frames import (
    Audio,
    Commit,
    Frame,
    SpeechStarted,
    SpeechStopped,
    Transcript,
    TranscriptionSettings,
    TurnSettings,
)
from motet.components.turn.silence import SilenceTurn
from motet.pipelines import build
from motet.pipelines.channel import Channel
from motet.pipelines.graph import Node
from motet.pipelines.runtimes.moving import moving, stands
from motet.pipelines.runtimes.standing import Standing
from motet.pipelines.spec import NodeSpec, PipelineSpec

GRAPH = build(
    PipelineSpec.model_validate(
        {
            "name": "t",
            "nodes": {
                "turn": {"use": "turn/silence"},
                "asr": {"use": "fakes:Hear"},
                "llm": {"use": "fakes:Answer"},
            },
            "edges": ["input -> turn -> asr -> conversation", "conversation -> llm -> output"],
            "conversation": {},
        }
    )
)


def audio(speech: float | None = None, ms: int = 32, start_ms: float = 0.0) -> Audio:
    return Audio(np.zeros(ms * 16, np.int16), 16_000, start_ms, speech)


def node(accepts: tuple[type[Frame], ...], emits: tuple[type[Frame], ...]) -> Node:
    return Node("n", NodeSpec(use="x/y"), accepts, emits)


TURN = node((Audio,), (Audio, SpeechStarted, SpeechStopped))
ASR = node((Audio, SpeechStarted, SpeechStopped), (Transcript,))
VAD = node((Audio,), (Audio,))


def test_a_recogniser_may_move_once_the_utterance_has_its_transcript() -> None:
    one = Standing(ASR)
    assert one.between_turns(0.0)
    one.took(SpeechStarted(1, 0), 1.0)
    assert not one.between_turns(9.0), "an utterance is open, however long nothing comes"
    one.took(SpeechStopped(1, 500), 2.0)
    assert not one.between_turns(9.0)
    one.gave(Transcript("he", final=False, utterance=1))
    assert not one.between_turns(9.0)
    one.gave(Transcript("hello", final=True, utterance=1))
    assert one.between_turns(2.0)
    one.took(SpeechStarted(2, 900), 3.0)
    one.took(SpeechStopped(2, 950, dropped=True), 3.1)
    assert one.between_turns(3.1), "dropped utterances get no transcript"


def test_a_turn_detector_may_move_in_silence_longer_than_what_is_under_way() -> None:
    one = Standing(TURN)
    one.took(audio(0.9), 0.0)
    for step in range(18):
        one.took(audio(0.01), step / 100)
    assert not one.between_turns(0.18), "18 windows of 32 ms: speech may still be under way"
    one.took(audio(0.01), 0.19)
    assert one.between_turns(0.19)
    one.gave(SpeechStarted(1, 0))
    assert not one.between_turns(0.19)
    one.gave(SpeechStopped(1, 700))
    assert one.between_turns(0.19)
    one.took(audio(0.8), 0.2)
    assert not one.between_turns(0.2)


def test_a_vad_judges_by_what_it_says_and_a_silent_client_is_between_turns() -> None:
    one = Standing(VAD)
    for step in range(40):
        one.took(audio(None), step / 100)
        one.gave(audio(0.9 if step < 10 else 0.02))
    assert one.between_turns(0.4)
    one.took(audio(None), 0.41)
    one.gave(audio(0.9))
    assert not one.between_turns(1.4)
    assert one.between_turns(1.41), "nothing has come for a second"


def test_utterances_are_numbered_on_and_settings_follow_without_an_echo() -> None:
    one = Standing(TURN)
    old, new, other = TurnSettings(threshold=0.3), TurnSettings(), TranscriptionSettings("de")
    for frame in (old, new, other):
        one.took(frame, 0.0)
        assert one.gave(frame) is frame
    assert one.gave(SpeechStarted(2, 0)) == SpeechStarted(2, 0)
    assert one.moved() == [new, other]
    assert one.gave(other) is None, "the detector keeps its own setting and passes this one on"
    assert one.gave(SpeechStarted(1, 0)) == SpeechStarted(3, 0)
    assert one.gave(SpeechStopped(1, 9)) == SpeechStopped(3, 9)
    assert one.gave(other) is other, "said again by the client"
    one.moved()
    assert one.gave(Commit()) == Commit()
    assert one.gave(new) is new, "an echo can't come behind what came after it"


def test_only_runs_of_a_conversation_that_read_a_channel_may_move() -> None:
    frames: Channel[Frame] = Channel(4)

    async def other() -> AsyncIterator[Frame]:
        yield Commit()

    assert stands(GRAPH, "asr", frames, Context())
    assert not stands(GRAPH, "asr", frames, Context(turn=1))
    assert not stands(GRAPH, "asr", other(), Context())
    assert not stands(GRAPH, "llm", frames, Context()), "a prompt is a request"


class Host:
    """A replica that answers each utterance with its name, and may be told to drain."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.draining = asyncio.Event()
        self.runs = 0

    async def call(
        self, node: str, frames: AsyncIterator[Frame], context: Context, window: int
    ) -> AsyncIterator[Frame]:
        self.runs += 1
        heard = 0
        async for frame in frames:
            heard += isinstance(frame, Audio)
            if isinstance(frame, SpeechStopped):
                yield Transcript(f"{self.name} {heard}", final=True, utterance=frame.utterance)
                heard = 0


class Hosts:
    """Leases of hosts that don't drain; none while `full`."""

    def __init__(self, *names: str, kind: type[Host] = Host) -> None:
        self.all = [kind(name) for name in names]
        self.held: list[str] = []
        self.full = False
        self.asked = 0

    @asynccontextmanager
    async def lease(self, wait: bool) -> AsyncGenerator[Any]:
        self.asked += 1
        free = next((one for one in self.all if not one.draining.is_set()), None)
        if free is None or (self.full and not wait):
            raise Overloaded("all are taken")
        self.held.append(free.name)
        try:
            yield free
        finally:
            self.held.remove(free.name)


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is awaited is another task's work
            await asyncio.sleep(0.005)


class Listener:
    """Collects what comes out of a standing run."""

    def __init__(self, hosts: Hosts, node: str = "asr") -> None:
        self.frames: Channel[Frame] = Channel(64)
        self.out: list[Frame] = []
        self.answers = moving(GRAPH, node, self.frames, Context(), hosts.lease, window=16)

    async def listen(self) -> None:
        async for frame in self.answers:
            self.out.append(frame)

    def say(self, number: int, windows: int = 3) -> None:
        for frame in (SpeechStarted(number, 0), *[audio()] * windows, SpeechStopped(number, 9)):
            assert self.frames.offer(frame)

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.out if isinstance(one, Transcript)]


async def test_a_run_moves_between_two_utterances_and_loses_nothing() -> None:
    hosts = Hosts("a", "b")
    listener = Listener(hosts)
    async with asyncio.TaskGroup() as group:
        group.create_task(listener.listen())
        listener.say(1)
        await until(lambda: listener.texts == ["a 3"])
        listener.frames.offer(SpeechStarted(2, 0))
        listener.frames.offer(audio())
        await until(lambda: len(listener.frames) == 0)
        hosts.all[0].draining.set()
        await asyncio.sleep(0.25)
        assert hosts.held == ["a"], "not in the middle of an utterance"
        listener.frames.offer(audio())
        listener.frames.offer(SpeechStopped(2, 9))
        await until(lambda: hosts.held == ["b"])
        assert listener.texts == ["a 3", "a 2"]
        listener.say(3)
        await until(lambda: len(listener.texts) == 3)
        listener.frames.close()
    assert listener.texts == ["a 3", "a 2", "b 3"]
    assert hosts.held == []


async def test_frames_that_come_while_it_moves_go_to_the_next_replica() -> None:
    """The run is left while its reader waits; whatever is offered in that moment isn't cut off."""
    hosts = Hosts("a", "b")
    listener = Listener(hosts)
    async with asyncio.TaskGroup() as group:
        group.create_task(listener.listen())
        await until(lambda: hosts.held == ["a"])
        hosts.all[0].draining.set()
        number = 0
        while hosts.held != ["b"]:
            number += 1
            listener.say(number)
            await until(lambda: len(listener.texts) == number)  # noqa: B023 - awaited at once
        listener.frames.close()
    assert [text.split()[1] for text in listener.texts] == ["3"] * number


async def test_without_room_elsewhere_it_stays_and_is_served() -> None:
    hosts = Hosts("a", "b")
    hosts.full = True
    listener = Listener(hosts)
    async with asyncio.TaskGroup() as group:
        group.create_task(listener.listen())
        await until(lambda: hosts.held == ["a"])
        hosts.all[0].draining.set()
        await until(lambda: hosts.asked > 2)
        listener.say(1)
        await until(lambda: listener.texts == ["a 3"])
        hosts.full = False
        await until(lambda: hosts.held == ["b"])
        listener.frames.close()
    assert hosts.held == []


@pytest.mark.parametrize("drains", [False, True])
async def test_a_run_that_is_closed_leaves_no_place_held(drains: bool) -> None:
    hosts = Hosts("a", "b")
    listener = Listener(hosts)
    listening = asyncio.create_task(listener.listen())
    await until(lambda: hosts.held == ["a"])
    if drains:
        hosts.all[0].draining.set()
        await until(lambda: hosts.held != ["a"])
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    await listener.answers.aclose()  # type: ignore[attr-defined]
    assert hosts.held == []


class Detector(Host):
    """A replica with the turn detector that pipelines have."""

    async def call(
        self, node: str, frames: AsyncIterator[Frame], context: Context, window: int
    ) -> AsyncIterator[Frame]:
        self.runs += 1
        async for frame in SilenceTurn(Setup("turn")).run(frames, context):
            yield frame


async def detected(hosts: Hosts, *, moves: bool) -> list[Frame]:
    """What comes of two utterances with 2.5 s of silence behind each; perhaps moved in between."""
    listener = Listener(hosts, "turn")
    start_ms = 0.0
    async with asyncio.TaskGroup() as group:
        group.create_task(listener.listen())
        await listener.frames.put(TurnSettings(silence_duration_ms=300))
        for round_ in range(2):
            for speech, windows in ((0.9, 30), (0.01, 40), (0.01, 40)):
                for _ in range(windows):
                    await listener.frames.put(audio(speech, start_ms=start_ms))
                    start_ms += 32
                await until(lambda: len(listener.frames) == 0)
                if moves and windows == 40 and not round_ and not hosts.all[0].draining.is_set():
                    hosts.all[0].draining.set()
                    await until(lambda: hosts.held == ["b"])
        listener.frames.close()
    return listener.out


def told(frame: Frame) -> object:
    return (frame.start_ms, frame.speech) if isinstance(frame, Audio) else frame


async def test_a_turn_detector_that_moved_tells_what_it_would_have_told() -> None:
    hosts = Hosts("a", "b", kind=Detector)
    moved = await detected(hosts, moves=True)
    assert [one.runs for one in hosts.all] == [1, 1]
    stayed = await detected(Hosts("a", kind=Detector), moves=False)
    assert [told(one) for one in moved] == [told(one) for one in stayed]
    numbers = [one.utterance for one in moved if isinstance(one, SpeechStopped)]
    assert numbers == [1, 2], "the second one's silence was the client's, not the default"
