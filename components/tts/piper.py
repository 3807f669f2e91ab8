"""Piper's ONNX voices (VITS), English without eSpeak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from pydantic import Field

from ..audio import Floats
from ..base import Setup
from ..errors import MissingRequirement, MotetError
from ..models import CATALOGUE, lacking, locate
from ..onnx import OnnxModel
from .phonemes import Phonemizer, espeak_here, phonemizer, spelled
from .speaker import Speaker, SpeakerOptions

DEFAULT_MODEL = "piper-joe"
BEGIN, END, PAD = "^", "$", "_"


class PiperOptions(SpeakerOptions):
    """Options of `tts/piper`; None leaves a value to the voice's own file."""

    phonemes: Literal["auto", "hibari", "espeak"] = Field(
        "auto", description="hibari for English, else espeak (needs piper-tts, GPL-3.0)"
    )
    noise_scale: float | None = Field(None, ge=0, le=2, description="how varied the voice sounds")
    noise_w: float | None = Field(None, ge=0, le=2, description="how varied its rhythm is")


class PiperTts(Speaker):
    """One Piper voice; one of several speakers offers each by its name.

    The node's `model:` is a catalogue name, an .onnx file beside its .onnx.json, or a folder.
    """

    options = PiperOptions
    gain_db = 4.0

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._piper = PiperOptions.model_validate(setup.options)
        self._model: OnnxModel | None = None
        self._convert: Phonemizer | None = None
        self._config: dict[str, Any] = {}
        self._names: list[str] = []

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        model = setup.model or DEFAULT_MODEL
        lacks = lacking(model, "tts/piper")
        if lacks or not (model in CATALOGUE or Path(model).expanduser().exists()):
            return lacks
        try:
            config = read_config(voice_file(model))
        except MotetError as error:
            return [str(error)]
        wanted = PiperOptions.model_validate(setup.options).phonemes
        return phonemes_lacking(str(config["espeak"]["voice"]), wanted)

    def open(self) -> None:
        """Load the voice.

        Raises:
            MissingRequirement: the voice or its phonemizer isn't here.
            MotetError: its settings can't be read.
        """
        path = voice_file(self.setup.model)
        self._config = config = read_config(path)
        language = str(config["espeak"]["voice"])
        lacks = phonemes_lacking(language, self._piper.phonemes)
        if lacks:
            raise MissingRequirement("; ".join(lacks), where=self.setup.node)
        self.rate_hz = int(config["audio"]["sample_rate"])
        speakers = cast("dict[str, int]", config.get("speaker_id_map") or {})
        self._names = list(speakers) or [path.stem]
        self._model = OnnxModel(path, threads=self.setup.resources.threads)
        self._convert = phonemizer(language, self._piper.phonemes)

    def voices(self) -> list[str]:
        return self._names

    def languages(self) -> list[str]:
        """The voice's language, as "en-US" or "de"."""
        language, dash, region = str(self._config["espeak"]["voice"]).partition("-")
        return [language + dash + (region.upper() if len(region) == 2 else region)]

    def synthesize(self, text: str, voice: str, speed: float) -> Floats:
        assert self._convert is not None
        assert self._model is not None
        ids = self._ids(self._convert(text))
        if len(ids) <= 3:
            return np.zeros(0, np.float32)
        inference, options = self._config["inference"], self._piper
        noise = inference["noise_scale"] if options.noise_scale is None else options.noise_scale
        noise_w = inference["noise_w"] if options.noise_w is None else options.noise_w
        length = inference["length_scale"] / speed
        feeds = {
            "input": np.array([ids], np.int64),
            "input_lengths": np.array([len(ids)], np.int64),
            "scales": np.array([noise, length, noise_w], np.float32),
        }
        if int(self._config.get("num_speakers", 1)) > 1:
            feeds["sid"] = np.array([self._config["speaker_id_map"][voice]], np.int64)
        return self._model.run(feeds)[0].squeeze().astype(np.float32)

    def _ids(self, phonemes: str) -> list[int]:
        """Ids as in Piper's training: a pad behind each sign; unknown signs are left out."""
        table = cast("dict[str, list[int]]", self._config["phoneme_id_map"])
        ids = [*table[BEGIN], *table[PAD]]
        for sign in spelled(phonemes):
            if sign in table:
                ids += [*table[sign], *table[PAD]]
        return [*ids, *table[END]]

    async def close(self) -> None:
        await super().close()
        self._model = self._convert = None


def voice_file(model: str | None) -> Path:
    """The .onnx file that a node's `model:` names.

    Raises:
        MissingRequirement: it isn't there, or a folder holds none or several.
    """
    path = locate(model or DEFAULT_MODEL)
    if path.is_file():
        return path
    found = sorted(path.rglob("*.onnx"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found[:8]) or "none"
        raise MissingRequirement(f"{path} must hold one .onnx file; it has: {names}", where="model")
    return found[0]


def read_config(path: Path) -> dict[str, Any]:
    """The settings beside a voice's .onnx file.

    Raises:
        MissingRequirement: the file isn't there.
        MotetError: it isn't one of Piper's.
    """
    file = path.with_name(path.name + ".json")
    try:
        config = json.loads(file.read_bytes())
        missing = {"audio", "espeak", "inference", "phoneme_id_map"} - set(config)
    except OSError as error:
        raise MissingRequirement(f"{file} is not there: a voice needs it", where="model") from error
    except (ValueError, TypeError) as error:
        raise MotetError(f"{file} is no JSON object", where="model") from error
    if missing:
        raise MotetError(f"{file} lacks {', '.join(sorted(missing))}", where="model")
    return config


def phonemes_lacking(language: str, wanted: str) -> list[str]:
    """What is missing here to get phonemes for a language."""
    needs_espeak = wanted == "espeak" or (wanted == "auto" and not language.startswith("en"))
    if needs_espeak and not espeak_here():
        return [
            f"phonemes for {language!r} come from eSpeak: pip install piper-tts (GPL-3.0);"
            " English voices go without it (phonemes: hibari)"
        ]
    return []
