"""Which components there are, where each one's file lies, and what it needs; files import late."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import cast

from .base import Component, Setup
from .errors import MissingRequirement, MotetError, nearest
from .own import own_class


@dataclass(frozen=True, slots=True)
class Entry:
    """A known component: `path` is "module:Class" below `motet.components`.

    `extra` is the extra of pyproject.toml that brings `packages`, the modules it imports.
    """

    path: str
    summary: str
    extra: str = "voice"
    packages: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages that aren't installed here; looks them up without importing them."""
        return tuple(name for name in self.packages if not is_there(name))


def is_there(package: str) -> bool:
    """Whether a package, or one inside another ("a.b"), is installed."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


ENTRIES: dict[str, Entry] = {
    "vad/silero": Entry(
        "vad.silero:SileroVad",
        "speech probability per 32 ms, batched across sessions",
        packages=("onnxruntime", "soxr"),
    ),
    "turn/silence": Entry("turn.silence:SilenceTurn", "a turn ends after a set silence"),
    "turn/smart": Entry(
        "turn.smart:SmartTurn",
        "a turn ends when it sounds finished (smart-turn v3.2)",
        packages=("onnxruntime", "soxr"),
    ),
    "asr/ct2": Entry(
        "asr.ct2:Ct2Asr",
        "Whisper on CTranslate2, with partial transcripts",
        packages=("ctranslate2", "tokenizers", "soxr"),
    ),
    "asr/file": Entry(
        "asr.file:FileAsr",
        "whole files: cut at pauses, decoded in parallel, checked, with word times",
        packages=("ctranslate2", "tokenizers", "soxr", "av", "onnxruntime"),
    ),
    "asr/hf": Entry(
        "asr.hf:HfAsr",
        "Whisper on transformers, batched",
        extra="media",
        packages=("torch", "transformers", "soxr"),
    ),
    "asr/trt": Entry(
        "asr.trt:TrtAsr",
        "Whisper on TensorRT-LLM (NVIDIA GPUs)",
        extra="trt",
        packages=("tensorrt_llm", "torch", "soxr"),
    ),
    "diarize/cluster": Entry(
        "diarize.cluster:ClusterDiarizer",
        "who spoke when, offline: voices clustered by their spectrum",
        extra="diarize",
        packages=("torch", "scipy", "av", "onnxruntime", "resemblyzer"),
    ),
    "diarize/pyannote": Entry(
        "diarize.pyannote:PyannoteDiarizer",
        "who spoke when, by pyannote.audio, with weights that you give",
        extra="pyannote",
        packages=("torch", "av", "pyannote.audio"),
    ),
    "llm/llama": Entry(
        "llm.llama:LlamaLlm",
        "GGUF models on llama.cpp, continuous batching",
        packages=("xllamacpp",),
    ),
    "llm/remote": Entry(
        "llm.remote:RemoteLlm", "any OpenAI-compatible server", packages=("httpx",)
    ),
    "llm/hf": Entry(
        "llm.hf:HfLlm",
        "language models on transformers, with continuous batching and pictures",
        extra="media",
        packages=("torch", "transformers", "llguidance", "peft"),
    ),
    "llm/trt": Entry(
        "llm.trt:TrtLlm",
        "language models on TensorRT-LLM (NVIDIA GPUs)",
        extra="trt",
        packages=("tensorrt_llm", "torch", "transformers"),
    ),
    "tts/hibari": Entry(
        "tts.hibari:HibariTts",
        "English, 24 kHz, far faster than real time",
        packages=("hibari", "regex"),
    ),
    "tts/piper": Entry(
        "tts.piper:PiperTts", "Piper ONNX voices", packages=("onnxruntime", "hibari", "regex")
    ),
    "tts/orpheus": Entry(
        "tts.orpheus:OrpheusTts",
        "expressive speech: a language model that writes SNAC's codes",
        packages=("httpx", "regex"),
    ),
    "codec/snac": Entry(
        "codec.snac:SnacCodec",
        "SNAC's codes to sound, streams batched",
        extra="media",
        packages=("torch", "snac"),
    ),
    "embed/text": Entry(
        "embed.text:TextEmbedder",
        "sentence embeddings, batched by tokens",
        extra="media",
        packages=("torch", "transformers"),
    ),
    "vision/encoder": Entry(
        "vision.encoder:VisionEncoder",
        "the encoder of a vision-language model, its results cached",
        extra="media",
        packages=("torch", "transformers", "PIL"),
    ),
    "vision/ocr": Entry(
        "vision.ocr:VisionOcr",
        "text of pictures and scanned pages (RapidOCR)",
        extra="media",
        packages=("rapidocr_onnxruntime", "PIL"),
    ),
    "vision/pdf": Entry(
        "vision.pdf:PdfPages",
        "pages of a PDF: their text, or their picture where they are scans",
        extra="media",
        packages=("pypdfium2", "PIL"),
    ),
    "diffusion/image": Entry(
        "diffusion.image:DiffusionImage",
        "pictures, on any diffusers pipeline, like requests batched",
        extra="media",
        packages=("torch", "diffusers", "transformers", "PIL"),
    ),
    "diffusion/video": Entry(
        "diffusion.video:DiffusionVideo",
        "clips, on diffusers' video pipelines, one at a time",
        extra="media",
        packages=("torch", "diffusers", "transformers", "PIL"),
    ),
}


def entry(use: str) -> Entry:
    """Look a component up by the name that a pipeline file uses, or "package.module:Class".

    Raises:
        MotetError: the name is unknown; the message has the nearest one.
    """
    if ":" in use:
        return Entry(use, "your own component", extra="")
    found = ENTRIES.get(use)
    if found is None:
        possible = nearest(use, list(ENTRIES))
        if possible.startswith("known"):
            possible += "; or your own, as package.module:Class"
        raise MotetError(f"{use!r} is unknown; {possible}", where="use")
    return found


def component_class(use: str) -> type[Component]:
    """Import the file of a component and return its class.

    Raises:
        MotetError: the name is unknown.
        MissingRequirement: a package is not installed; the message names the extra that brings it.
    """
    if ":" in use:
        return own_class(use)
    known = entry(use)
    if known.missing:
        raise MissingRequirement(
            f"{use} needs {', '.join(known.missing)}, not installed here;"
            f" install the extra: pip install 'motet[{known.extra}]'",
            where=use,
        )
    module, _, name = known.path.partition(":")
    package = __package__ or "motet.components"
    return cast("type[Component]", getattr(importlib.import_module(f".{module}", package), name))


def build(use: str, setup: Setup) -> Component:
    """Make a component, unloaded; its options must have been checked against its class."""
    return component_class(use)(setup)
