"""Models of the hub are named with a revision, in every place of a pipeline file that names one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from motet.components.errors import SpecError
from motet.components.models import hub_id, lacking
from motet.pipelines import load
from motet.pipelines.spec import NodeSpec
from motet.pipelines.validate import CONFIGS, Checker

USES = [
    *("vad/silero", "turn/smart", "asr/ct2", "asr/file", "asr/hf", "llm/llama", "llm/hf"),
    *("tts/piper", "vision/encoder", "embed/text", "codec/snac", "diffusion/image"),
    *("diffusion/video", "diarize/pyannote"),
]


def told(use: str, model: str | None, **options: Any) -> str:
    """What is wrong with a node of that model."""
    checker = Checker()
    spec = NodeSpec.model_validate({"use": use, "model": model, "options": options})
    kind = checker._component(("nodes", "n"), spec)
    if kind is None:
        pytest.skip("; ".join(flaw.message for flaw in checker.flaws))
    return "; ".join(flaw.render() for flaw in checker.flaws)


@pytest.mark.parametrize("use", USES)
def test_a_hub_id_needs_its_revision(use: str) -> None:
    for without in ("owner/name", "owner/name@"):
        assert "nodes.n: model 'owner/name' has no revision" in told(use, without)
        assert "write owner/name@REVISION" in told(use, without)
    for revision in ("main", "0a1b2c3"):
        assert "revision" not in told(use, f"owner/name@{revision}")


def test_so_do_the_files_and_adapters_that_options_name() -> None:
    assert "'o/n/f.gguf' has no revision" in told("llm/llama", "o/n/f.gguf")
    assert told("llm/llama", "o/n/f.gguf@main") == ""
    assert "'o/a' has no revision" in told("llm/hf", "o/n@main", adapters={"legal": "o/a"})
    assert told("llm/hf", "o/n@main", adapters={"legal": "o/a@main"}) == ""
    assert "'o/l' has no revision" in told("diffusion/image", None, lora=[{"model": "o/l"}])
    assert told("diffusion/image", None, lora=[{"model": "o/l@main"}]) == ""


def test_a_folder_is_no_hub_id_and_one_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "owner" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert hub_id("owner/name") is None
    assert lacking("owner/name") == []
    for missing in ("./owner/other", "owner/name/other", "/owner/other"):
        (lack,) = lacking(missing)
        assert "neither a local path nor a hub id" in lack


@pytest.mark.parametrize("file", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_ready_made_pipelines_name_theirs(file: Path) -> None:
    flaws = ""
    try:
        load(file)
    except SpecError as error:
        flaws = str(error)
    assert "revision" not in flaws
