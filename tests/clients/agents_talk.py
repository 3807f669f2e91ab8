"""Runs in a client's environment: an agent with a tool, asked in writing and then by voice.

Arguments: the server's address, a WAV file.
"""

import asyncio
import json
import sys
import wave

from agents import function_tool
from agents.realtime import RealtimeAgent, RealtimeRunner

ADDRESS, WAV = sys.argv[1:3]
CALLS = []


@function_tool
def weather(city: str) -> str:
    """What the weather is like."""
    CALLS.append(city)
    return f"sunny in {city}"


async def speak(session):
    with wave.open(WAV) as file:
        while chunk := file.readframes(480):
            await session.send_audio(chunk)
            await asyncio.sleep(0.005)


async def turns(session, seen, count):
    """Collect until the agent has said its last word `count` times."""
    said = 0
    async for event in session:
        seen.append(event)
        if event.type == "error":
            raise SystemExit(f"error event: {event}")
        said += event.type == "audio_end"
        if said == count:
            return


async def main():
    agent = RealtimeAgent(name="Guide", instructions="Be kind.", tools=[weather])
    url = ADDRESS.replace("http", "ws") + "/v1/realtime?model=gpt-realtime"
    runner = RealtimeRunner(agent)
    session = await runner.run(model_config={"url": url, "api_key": "k"})
    seen = []
    async with session:
        await session.send_message("What is the weather in Oslo?")
        await turns(session, seen, 1)
        written = len(CALLS)
        speaking = asyncio.create_task(speak(session))
        await turns(session, seen, 1)
        await speaking
        await asyncio.sleep(0.5)
        history = [item.model_dump() for item in session._history]
    report = {
        "kinds": [event.type for event in seen],
        "calls": CALLS,
        "calls_when_written": written,
        "history": history,
        "audio_bytes": sum(len(e.audio.data) for e in seen if e.type == "audio"),
    }
    json.dump(report, sys.stdout, default=str)


asyncio.run(main())
