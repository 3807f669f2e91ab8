"""What a voice session costs in Pipecat, to run beside `motet bench voice`.

Needs an environment of its own: pip install 'pipecat-ai[silero]==1.14.0'. Sessions on one loop, in
one process, fed 16 kHz audio in 20 ms frames at the pace of life, through

    Silero VAD -> fake STT -> user aggregator -> fake LLM -> fake TTS -> assistant aggregator

whose fakes answer at once. Prints one JSON line: CPU seconds per session-second, the time from a
frame's queueing to its arrival behind the STT, and from the end of speech to the first TTS frame.

    python pipecat_voice.py -n 30 -t 10 --wav speech.wav
"""

import argparse
import asyncio
import json
import os
import resource
import sys
import threading
import time
import wave

os.environ.setdefault("LOGURU_LEVEL", "ERROR")
import numpy as np
from loguru import logger

logger.remove()
logger.add(sys.stderr, level="ERROR")

import contextlib

from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.audio.vad.vad_analyzer import VADParams
from pipecat.frames.frames import (
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.audio.vad_processor import VADProcessor
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.llm_service import LLMService
from pipecat.services.settings import LLMSettings, STTSettings, TTSSettings
from pipecat.services.stt_service import SegmentedSTTService
from pipecat.services.tts_service import TTSService
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import (
    UserTurnStrategies,
    default_user_turn_start_strategies,
)
from pipecat.utils.time import time_now_iso8601
from pipecat.workers.runner import WorkerRunner

RATE, FRAME_MS = 16000, 20
FRAME_BYTES = RATE * FRAME_MS // 1000 * 2
REPLY = "Sure, here is a short answer. It has two sentences."


class FakeSTT(SegmentedSTTService):
    """Returns a fixed transcript for every VAD segment."""

    def __init__(self):
        super().__init__(settings=STTSettings(model="fake", language=None), ttfs_p99_latency=0.05)

    async def run_stt(self, audio):
        yield TranscriptionFrame("hello there", "u", time_now_iso8601())


class FakeLLM(LLMService):
    """Streams REPLY word by word, with no delay."""

    def __init__(self):
        super().__init__(
            settings=LLMSettings(
                model="fake",
                system_instruction=None,
                temperature=None,
                max_tokens=None,
                top_p=None,
                top_k=None,
                frequency_penalty=None,
                presence_penalty=None,
                seed=None,
                filter_incomplete_user_turns=False,
                user_turn_completion_config=None,
            )
        )

    async def process_frame(self, frame: Frame, direction: FrameDirection):
        await super().process_frame(frame, direction)
        if isinstance(frame, LLMContextFrame):
            await self.push_frame(LLMFullResponseStartFrame())
            for w in REPLY.split(" "):
                await self.push_frame(LLMTextFrame(w + " "))
            await self.push_frame(LLMFullResponseEndFrame())
        else:
            await self.push_frame(frame, direction)


class FakeTTS(TTSService):
    """40 x 20 ms of 24 kHz audio per sentence, at once."""

    CHUNK = bytes(24000 // 50 * 2)

    def __init__(self):
        super().__init__(
            push_start_frame=True,
            push_stop_frames=True,
            settings=TTSSettings(model="fake", voice="v", language=None),
        )

    async def run_tts(self, text, context_id):
        for _ in range(40):
            yield TTSAudioRawFrame(self.CHUNK, 24000, 1, context_id=context_id)


class Probe(FrameProcessor):
    """Records arrival latency of input frames and of the first TTS frame of each turn."""

    def __init__(self, rec):
        super().__init__()
        self.rec = rec
        self.speech_end = None

    async def process_frame(self, frame: Frame, direction: FrameDirection):
        await super().process_frame(frame, direction)
        if isinstance(frame, InputAudioRawFrame):
            t = frame.metadata.get("t0")
            if t is not None and self.rec.on:
                self.rec.frame.append(time.perf_counter() - t)
        elif isinstance(frame, TTSAudioRawFrame):
            self.rec.tts += 1
            if self.speech_end is not None:
                if self.rec.on:
                    self.rec.turn.append(time.perf_counter() - self.speech_end)
                self.speech_end = None
        elif isinstance(frame, TranscriptionFrame):
            self.rec.transcripts += 1
        elif isinstance(frame, InterruptionFrame):
            self.rec.interruptions += 1
        await self.push_frame(frame, direction)


class Rec:
    def __init__(self):
        self.on = False
        self.frame = []
        self.turn = []
        self.lag = []
        self.tts = 0
        self.transcripts = 0
        self.interruptions = 0
        self.fed = 0


def load_clip(path):
    """Speech clip at 16 kHz + its length in frames; then silence so that one cycle lasts 5 s."""
    with wave.open(path) as w:
        assert w.getsampwidth() == 2
        assert w.getnchannels() == 1
        x = np.frombuffer(w.readframes(w.getnframes()), np.int16).astype(np.float32)
        sr = w.getframerate()
    n = int(len(x) * RATE / sr)
    y = np.interp(np.linspace(0, len(x) - 1, n), np.arange(len(x)), x)
    y = y / max(1, np.abs(y).max()) * 20000
    v = np.abs(y) > 400  # trim to the last voiced sample
    y = y[: np.nonzero(v)[0][-1] + 1].astype(np.int16)
    speech_frames = -(-len(y) * 2 // FRAME_BYTES)
    total = 5 * 1000 // FRAME_MS
    buf = y.tobytes().ljust(total * FRAME_BYTES, b"\0")
    return [buf[i * FRAME_BYTES : (i + 1) * FRAME_BYTES] for i in range(total)], speech_frames


def build(args, rec):
    procs = []
    if args.vad == "silero":
        procs.append(
            VADProcessor(
                vad_analyzer=SileroVADAnalyzer(
                    params=VADParams(stop_secs=0.2, min_volume=args.min_volume)
                )
            )
        )
    probe = Probe(rec)
    if args.pipeline == "passthrough":
        procs += [probe]
    else:
        if args.turn == "smart":
            strategies = None  # pipecat's default: LocalSmartTurnAnalyzerV3
        else:
            strategies = UserTurnStrategies(
                start=default_user_turn_start_strategies(),
                stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.3)],
            )
        user, assistant = LLMContextAggregatorPair(
            LLMContext(), user_params=LLMUserAggregatorParams(user_turn_strategies=strategies)
        )
        stt = FakeSTT()
        # audio is measured right behind the STT; text/TTS frames at the end of the chain
        procs += [stt, AudioProbe(rec), user, FakeLLM(), FakeTTS(), probe, assistant]
    worker = PipelineWorker(
        Pipeline(procs),
        params=PipelineParams(
            audio_in_sample_rate=RATE, audio_out_sample_rate=24000, enable_metrics=args.metrics
        ),
        enable_turn_tracking=args.metrics,
        enable_rtvi=False,
        cancel_on_idle_timeout=False,
        idle_timeout_secs=None,
    )
    return worker, probe


class AudioProbe(FrameProcessor):
    def __init__(self, rec):
        super().__init__()
        self.rec = rec

    async def process_frame(self, frame, direction):
        await super().process_frame(frame, direction)
        if isinstance(frame, InputAudioRawFrame) and self.rec.on:
            self.rec.frame.append(time.perf_counter() - frame.metadata["t0"])
            frame.metadata.pop("t0", None)
        await self.push_frame(frame, direction)


async def feed(worker, probe, clip, speech_frames, rec, start, stop, phase):
    i = phase
    n = len(clip)
    k = 0
    while True:
        due = start + k * FRAME_MS / 1000
        now = time.perf_counter()
        if due > now:
            await asyncio.sleep(due - now)
        now = time.perf_counter()
        if now >= stop:
            return
        if rec.on:
            rec.lag.append(now - due)
        f = InputAudioRawFrame(clip[i % n], RATE, 1)
        f.metadata["t0"] = now
        await worker.queue_frame(f)
        rec.fed += 1
        if i % n == speech_frames - 1:
            probe.speech_end = time.perf_counter()
        i += 1
        k += 1


def machine_busy():
    """CPU seconds the whole machine has used (to tell how much others took while we measured)."""
    v = [int(x) for x in open("/proc/stat").readline().split()[1:]]
    return (sum(v) - v[3] - v[4]) / os.sysconf("SC_CLK_TCK")


def pct(xs, q):
    return float(np.percentile(xs, q)) * 1000 if xs else float("nan")


async def main(args):
    clip, speech_frames = load_clip(args.wav)
    rec = Rec()
    runner = WorkerRunner(handle_sigint=False)
    t = time.perf_counter()
    c0 = time.process_time()
    pairs = [build(args, rec) for _ in range(args.n)]
    for w, _ in pairs:
        await runner.add_workers(w)
    run = asyncio.create_task(runner.run())
    await asyncio.sleep(2.0 + 0.05 * args.n)
    startup = (time.perf_counter() - t, time.process_time() - c0)
    rss = int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20
    start = time.perf_counter() + 0.2
    measure = start + args.warm
    stop = measure + args.t
    rng = np.random.default_rng(0)
    feeders = [
        asyncio.create_task(
            feed(
                w,
                p,
                clip,
                speech_frames,
                rec,
                start + float(rng.random()) * 0.02,
                stop,
                int(rng.integers(0, len(clip))),
            )
        )
        for w, p in pairs
    ]
    await asyncio.sleep(measure - time.perf_counter())
    rec.on = True
    rec.fed = 0
    rec.tts = rec.transcripts = rec.interruptions = 0
    cpu0 = time.process_time()
    w0 = time.perf_counter()
    b0 = machine_busy()
    await asyncio.sleep(max(0, stop - time.perf_counter()))
    cpu = time.process_time() - cpu0
    wall = time.perf_counter() - w0
    rec.on = False
    others = max(0.0, machine_busy() - b0 - cpu)
    await asyncio.gather(*feeders)
    out = {
        "n": args.n,
        "wall": round(wall, 2),
        "pipeline": args.pipeline,
        "vad": args.vad,
        "turn": args.turn,
        "metrics": args.metrics,
        "cpu_s": round(cpu, 3),
        "cpu_per_session_s": round(cpu / (args.n * wall), 5),
        "sessions_per_core": round(args.n * wall / cpu, 1),
        "audio_fed_ratio": round(rec.fed * FRAME_MS / 1000 / (args.n * wall), 3),
        "frame_ms_p50": round(pct(rec.frame, 50), 3),
        "frame_ms_p99": round(pct(rec.frame, 99), 3),
        "turn_ms_p50": round(pct(rec.turn, 50), 1),
        "turn_ms_p99": round(pct(rec.turn, 99), 1),
        "turns": len(rec.turn),
        "lag_ms_p50": round(pct(rec.lag, 50), 3),
        "lag_ms_p99": round(pct(rec.lag, 99), 3),
        "transcripts": rec.transcripts,
        "tts_frames": rec.tts,
        "interruptions": rec.interruptions,
        "threads": threading.active_count(),
        "others_cpu_cores": round(others / wall, 2),
        "load1": os.getloadavg()[0],
        "rss_mb_idle": round(rss, 1),
        "rss_mb_peak": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "startup_wall": round(startup[0], 2),
        "startup_cpu": round(startup[1], 2),
    }
    print(json.dumps(out))
    await runner.cancel()
    with contextlib.suppress(TimeoutError, asyncio.CancelledError):
        await asyncio.wait_for(run, 10)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("-n", type=int, default=1)
    ap.add_argument("-t", type=float, default=15)
    ap.add_argument("--warm", type=float, default=3)
    ap.add_argument("--vad", choices=["silero", "none"], default="silero")
    ap.add_argument("--turn", choices=["timeout", "smart"], default="timeout")
    ap.add_argument("--pipeline", choices=["full", "passthrough"], default="full")
    ap.add_argument("--metrics", action="store_true")
    ap.add_argument("--min-volume", type=float, default=0.6)
    ap.add_argument(
        "--wav", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "speech.wav")
    )
    asyncio.run(main(ap.parse_args()))
