"""smart-turn: features against the reference, and turns that end because they sound finished."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from motet.components.audio import to_float
from motet.components.base import Context, Setup
from motet.components.errors import MotetError
from motet.components.frames import Audio, Frame, SpeechPaused, SpeechStopped, TurnSettings
from motet.components.models import bundled_path, package_folder
from motet.components.turn.smart import SmartTurn, SmartTurnModel

pytest.importorskip("onnxruntime")
if package_folder("pipecat") is None:
    pytest.skip("the smart-turn weights aren't installed", allow_module_level=True)

SEMANTIC = TurnSettings(mode="semantic", eagerness="high")


def reference():
    """Pipecat's own features, from their file alone: the package imports half a framework."""
    folder = package_folder("pipecat")
    assert folder is not None
    path = Path(folder) / "audio/turn/smart_turn/_whisper_features.py"
    spec = importlib.util.spec_from_file_location("reference_features", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.compute_whisper_log_mel_features


@pytest.fixture(scope="module")
def model() -> SmartTurnModel:
    return SmartTurnModel(bundled_path("smart-turn"))


@pytest.mark.parametrize("seconds", [0.5, 3.0, 11.0])
def test_features_are_those_the_model_was_trained_on(say, seconds: float):
    speech = to_float(np.tile(say("The ship sails at nine on Monday."), 6))
    signal = speech[: int(seconds * 16_000)]
    last = signal[-128_000:]
    expected = reference()(np.pad(last, (128_000 - len(last), 0)))
    features = SmartTurnModel.features(signal)
    assert features.shape == (80, 800)
    assert np.abs(features - expected).max() < 0.05  # float32 beside float64, in silent bins
    assert np.abs(features - expected).mean() < 1e-4


def test_probabilities_are_those_of_the_reference_features(say, model):
    signals = [to_float(say(text)) for text in ("What time is it?", "I would like to", "Well, um")]
    features = [reference()(np.pad(one, (128_000 - len(one), 0))) for one in signals]
    (expected,) = model._model.run({"input_features": np.stack(features)})
    assert model.probabilities(signals) == pytest.approx(expected.reshape(-1).tolist(), abs=0.01)


async def spoken(speech: np.ndarray, silence_ms: int) -> AsyncIterator[Frame]:
    """Speech and silence as a VAD marks them, at the speed of sound times four."""
    yield SEMANTIC
    windows = [(speech[n : n + 512], 0.9) for n in range(0, len(speech) - 511, 512)]
    windows += [(np.zeros(512, np.int16), 0.0)] * (silence_ms // 32)
    for n, (pcm, probability) in enumerate(windows):
        await asyncio.sleep(0.008)
        yield Audio(pcm, 16_000, n * 32.0, probability)


async def turn_end(
    setup: Setup, speech: np.ndarray, silence_ms: int
) -> tuple[float, SpeechStopped]:
    """The silence before the turn ended, and how it ended."""
    turn = SmartTurn(setup)
    await turn.load()
    try:
        frames = [frame async for frame in turn.run(spoken(speech, silence_ms), Context())]
    finally:
        await turn.close()
    paused = next(frame for frame in frames if isinstance(frame, SpeechPaused))
    stopped = next(frame for frame in frames if isinstance(frame, SpeechStopped))
    return stopped.end_ms - paused.end_ms, stopped


async def test_a_finished_question_ends_soon_and_an_unfinished_one_waits(say, model):
    finished, unfinished = say("What time is it in Paris?"), say("I would like to book a")
    probabilities = model.probabilities([to_float(finished), to_float(unfinished)])
    assert probabilities[0] > probabilities[1]
    threshold = sum(probabilities) / 2
    setup = Setup("turn", options={"threshold": threshold})
    silence_ms, stopped = await turn_end(setup, finished, 2400)
    assert 200 <= silence_ms < 1600
    assert stopped.decision_ms > 0
    silence_ms, _ = await turn_end(setup, unfinished, 2400)
    assert silence_ms >= 2000


async def test_a_judge_that_fails_leaves_the_clock_to_end_the_turn(say, caplog):
    turn = SmartTurn(Setup("turn"))
    frames = [frame async for frame in turn.run(spoken(say("Hello there."), 2400), Context())]
    assert sum(isinstance(frame, SpeechStopped) for frame in frames) == 1
    assert "no verdict" in caplog.text


def test_a_missing_model_is_named():
    assert SmartTurn.requirements(Setup("turn")) == []
    (lack,) = SmartTurn.requirements(Setup("turn", model="no-such-model"))
    assert "no-such-model" in lack
    with pytest.raises(MotetError):
        asyncio.run(SmartTurn(Setup("turn", model="no-such-model")).load())
