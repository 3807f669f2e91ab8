"""Runs where Pipecat is: its OpenAI Realtime service in a pipeline, asked by voice.

Arguments: the server's address, a WAV file.
"""

import asyncio
import json
import sys
import wave

from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    InputAudioRawFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    TTSAudioRawFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.runner import PipelineRunner
from pipecat.pipeline.task import PipelineTask
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService

ADDRESS, WAV = sys.argv[1:3]


class Ear(FrameProcessor):
    """Keeps what comes out of the service."""

    def __init__(self):
        super().__init__()
        self.kinds, self.audio_bytes, self.text, self.errors = [], 0, "", []
        self.done = asyncio.Event()

    async def process_frame(self, frame, direction):
        await super().process_frame(frame, direction)
        self.kinds.append(type(frame).__name__)
        if isinstance(frame, TTSAudioRawFrame):
            self.audio_bytes += len(frame.audio)
        elif isinstance(frame, TTSTextFrame):
            self.text += frame.text
        elif isinstance(frame, ErrorFrame):
            self.errors.append(str(frame))
        elif isinstance(frame, LLMFullResponseEndFrame):
            self.done.set()
        await self.push_frame(frame, direction)


async def main():
    url = ADDRESS.replace("http", "ws") + "/v1/realtime"
    llm = OpenAIRealtimeLLMService(api_key="k", base_url=url)
    context = LLMContext([{"role": "developer", "content": "Greet the user."}])
    pair = LLMContextAggregatorPair(context)
    ear = Ear()
    task = PipelineTask(Pipeline([pair.user(), llm, ear, pair.assistant()]))

    async def talk():
        await task.queue_frame(LLMContextFrame(context))
        await asyncio.wait_for(ear.done.wait(), 20)
        greeting, ear.text = ear.text, ""
        ear.done.clear()
        with wave.open(WAV) as file:
            while chunk := file.readframes(480):
                await task.queue_frame(InputAudioRawFrame(chunk, 24_000, 1))
                await asyncio.sleep(0.01)
        await asyncio.wait_for(ear.done.wait(), 20)
        answer = ear.text
        await task.queue_frame(EndFrame())
        return greeting, answer

    running = asyncio.create_task(PipelineRunner(handle_sigint=False).run(task))
    greeting, answer = await talk()
    await asyncio.wait_for(running, 20)
    report = {
        "greeting": greeting,
        "answer": answer,
        "audio_bytes": ear.audio_bytes,
        "errors": ear.errors,
        "kinds": sorted(set(ear.kinds)),
        "messages": [m for m in context.get_messages() if isinstance(m, dict)],
    }
    json.dump(report, sys.stdout)


asyncio.run(main())
