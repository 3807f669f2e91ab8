"""Runs in a client's environment: LiveKit's realtime model without a room, asked by voice.

Arguments: the server's address, a WAV file.
"""

import asyncio
import json
import logging
import sys
import wave

import aiohttp
from livekit import rtc
from livekit.agents import llm
from livekit.plugins.openai.realtime import RealtimeModel

ADDRESS, WAV = sys.argv[1:3]


class Problems(logging.Handler):
    """Keeps what LiveKit warns of."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.said = []

    def emit(self, record):
        self.said.append(record.getMessage())


async def listen(generation):
    """A reply: its text, its samples, its tool calls."""
    text, samples, calls = "", 0, []
    async for message in generation.message_stream:
        async for piece in message.text_stream:
            text += piece
        async for frame in message.audio_stream:
            samples += frame.samples_per_channel
    async for call in generation.function_stream:
        calls.append(call.name)
    return {"text": text, "samples": samples, "calls": calls}


async def speak(session):
    with wave.open(WAV) as file:
        while chunk := file.readframes(480):
            session.push_audio(rtc.AudioFrame(chunk, 24_000, 1, len(chunk) // 2))
            await asyncio.sleep(0.01)


async def main():
    problems = Problems()
    logging.getLogger("livekit").addHandler(problems)
    async with aiohttp.ClientSession() as http:
        model = RealtimeModel(api_key="k", base_url=f"{ADDRESS}/v1", http_session=http)
        session = model.session()
        heard, errors, replies = [], [], asyncio.Queue()
        session.on("error", lambda error: errors.append(str(error)))
        session.on("generation_created", replies.put_nowait)
        session.on(
            "input_audio_transcription_completed",
            lambda event: heard.append(event.transcript) if event.is_final else None,
        )
        context = llm.ChatContext.empty()
        context.add_message(role="user", content="My name is Ada.")
        await session.update_chat_ctx(context)
        asked = await asyncio.wait_for(session.generate_reply(instructions="Greet me."), 10)
        greeting = await listen(asked)
        await replies.get()
        speaking = asyncio.create_task(speak(session))
        answer = await listen(await asyncio.wait_for(replies.get(), 20))
        await speaking
        items = [item.id for item in session.chat_ctx.items]
        await session.aclose()
        await model.aclose()
    report = {
        "greeting": greeting,
        "answer": answer,
        "heard": heard,
        "errors": errors,
        "problems": problems.said,
        "items": len(items),
    }
    json.dump(report, sys.stdout)


asyncio.run(main())
