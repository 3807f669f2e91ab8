"""Runs in a client's environment: one spoken and one written turn with openai-python.

Arguments: the server's address, a WAV file, and "ws" for versions that need their socket's URL.
"""

import asyncio
import base64
import json
import sys
import wave

from openai import AsyncOpenAI

ADDRESS, WAV = sys.argv[1:3]
OPTIONS = {"api_key": "k", "base_url": f"{ADDRESS}/v1"}
if "ws" in sys.argv[3:]:
    OPTIONS["websocket_base_url"] = ADDRESS.replace("http", "ws") + "/v1"
SESSION = {
    "type": "realtime",
    "model": "gpt-realtime",
    "output_modalities": ["audio"],
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24000},
            "transcription": {"model": "gpt-4o-mini-transcribe"},
            "turn_detection": {"type": "server_vad", "silence_duration_ms": 400},
        },
        "output": {"voice": "marin"},
    },
}


async def speak(connection):
    with wave.open(WAV) as file:
        while chunk := file.readframes(480):
            await connection.input_audio_buffer.append(audio=base64.b64encode(chunk).decode())
            await asyncio.sleep(0.005)


async def turn(connection, events):
    """Take events until the response is done."""
    async for event in connection:
        events.append(event)
        if event.type == "response.done":
            return event.response
        if event.type == "error":
            raise SystemExit(f"error event: {event}")


async def main():
    events = []
    client = AsyncOpenAI(**OPTIONS)
    async with client.realtime.connect(model="gpt-realtime") as connection:
        await connection.session.update(session=SESSION)
        speaking = asyncio.create_task(speak(connection))
        spoken = await turn(connection, events)
        await speaking
        item = {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "Say hello."}],
        }
        await connection.conversation.item.create(item=item)
        await connection.response.create(response={"output_modalities": ["text"]})
        written = await turn(connection, events)
        await connection.conversation.item.retrieve(item_id=spoken.output[0].id)
        async for event in connection:
            events.append(event)
            if event.type == "conversation.item.retrieved":
                break
    secret = await client.realtime.client_secrets.create(session={"type": "realtime"})
    audio = [base64.b64decode(e.delta) for e in events if e.type == "response.output_audio.delta"]
    heard = [e for e in events if e.type.endswith("input_audio_transcription.completed")]
    report = {
        "types": [event.type for event in events],
        "classes": [type(event).__name__ for event in events],
        "heard": heard[0].transcript,
        "spoken": spoken.output[0].content[0].transcript,
        "spoken_status": spoken.status,
        "audio_bytes": sum(map(len, audio)),
        "written": written.output[0].content[0].text,
        "retrieved": events[-1].item.content[0].transcript,
        "secret": secret.value[:3],
    }
    json.dump(report, sys.stdout)


asyncio.run(main())
