"""Where a GGUF file lies: in the catalogue, on the disk, or as one file of a hub repository."""

from __future__ import annotations

from pathlib import Path

from ..errors import MissingRequirement, MotetError
from ..models import lacking, locate, no_revision

DEFAULT_MODEL = "smollm2-135m"

# The model's own, less the system message it puts before chats that have none, with which so small
# a model answers simple questions in broken French.
_SMOLLM2 = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content']"
    " + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def chat_template(model: str | None) -> str:
    """The Jinja template for a model of the catalogue whose own doesn't serve; "" for its own."""
    return _SMOLLM2 if (model or DEFAULT_MODEL) == DEFAULT_MODEL else ""


def gguf_file(model: str | None) -> Path:
    """The GGUF file that a node's `model:` names; a folder must hold exactly one.

    One file of a repository on the hub is "owner/name/file.gguf@revision".

    Raises:
        MissingRequirement: it isn't there, or a folder holds none or several.
    """
    model = model or DEFAULT_MODEL
    named = hub_file(model)
    path = _download(*named) if named else locate(model)
    if path.is_file():
        return path
    found = sorted(path.rglob("*.gguf"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found[:8]) or "none"
        raise MissingRequirement(f"{path} must hold one .gguf file; it has: {names}", where="model")
    return found[0]


def gguf_lacking(model: str) -> list[str]:
    """What `gguf_file` would miss, one sentence each, without downloading anything."""
    if named := hub_file(model):
        return [] if named[2] else [no_revision(model)]
    lacks = lacking(model, "llm/llama")
    if lacks or not Path(model).expanduser().is_dir():
        return lacks
    try:
        gguf_file(model)
    except MotetError as error:
        return [str(error)]
    return []


def hub_file(model: str) -> tuple[str, str, str | None] | None:
    """Repository, file and revision of "owner/name/file.gguf@revision"; None for other names."""
    name, _, revision = model.partition("@")
    parts = name.split("/")
    remote = len(parts) == 3 and name.endswith(".gguf") and parts[0] not in ("", ".", "..", "~")
    if not remote or Path(model).exists():
        return None
    return "/".join(parts[:2]), parts[2], revision or None


def _download(repo: str, file: str, revision: str | None) -> Path:
    try:
        from huggingface_hub import hf_hub_download  # pyright: ignore[reportUnknownVariableType]

        return Path(hf_hub_download(repo, file, revision=revision))
    except (ImportError, OSError, ValueError) as error:
        raise MissingRequirement(
            f"{file!r} of {repo!r} can't be had from the hub ({type(error).__name__}); give a local"
            " file, or set HF_HOME to a filled cache",
            where="model",
        ) from error
