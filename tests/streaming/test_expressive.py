"""expressive.yaml by the official client: text to codes by a server, codes to sound here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openai
import pytest
import yaml
from serving import listening, serving
from speechfakes import SpeechServer, save_codec

from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec

pytestmark = pytest.mark.timeout(120)

FILE = Path(__file__).parents[2] / "configs" / "expressive.yaml"
SAMPLES = 2048


def test_speech_comes_with_every_sample_of_every_frame(tmp_path: Path) -> None:
    frames = [[n, 0, 4095, 7 * n, 1, 2, 3] for n in range(5)]
    speech = SpeechServer(frames)
    with listening(speech.app) as address:
        spec = yaml.safe_load(FILE.read_text())
        spec["nodes"]["tts"]["options"]["base_url"] = f"{address}/v1"
        spec["nodes"]["codec"] |= {
            "model": str(save_codec(tmp_path / "codec")),
            "options": {"seed": 3},
        }
        with serving(build(PipelineSpec.model_validate(spec))) as served:
            client = openai.OpenAI(base_url=f"{served}/v1", api_key="x", max_retries=0)

            def say(text: str, **more: object) -> bytes:
                with client.audio.speech.with_streaming_response.create(
                    model="expressive",
                    voice="tara",
                    input=text,
                    response_format="pcm",
                    **more,  # type: ignore[arg-type]
                ) as answer:
                    return answer.read()

            sound = np.frombuffer(say("Hello there. How are you today?"), "<i2")
            assert len(sound) == len(speech.asked) * len(frames) * SAMPLES
            assert np.abs(sound).max() > 100
            assert "tara: Hello there." in speech.asked[0]["prompt"]
            with pytest.raises(openai.BadRequestError, match="speaks at speed 1"):
                say("Hello.", speed=1.5)
            speech.status = 503
            with pytest.raises(openai.InternalServerError):
                say("Hello.")
