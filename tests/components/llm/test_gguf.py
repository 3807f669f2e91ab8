"""Where a GGUF file lies: catalogue, disk or hub."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("xllamacpp")

from motet.components.base import Setup
from motet.components.errors import MissingRequirement
from motet.components.llm.gguf import gguf_file, hub_file
from motet.components.llm.llama import LlamaLlm
from motet.components.models import locate


def test_models_are_found(tmp_path: Path) -> None:
    assert gguf_file(None) == locate("smollm2-135m")
    with pytest.raises(MissingRequirement, match=r"one \.gguf file; it has: none"):
        gguf_file(str(tmp_path))
    (tmp_path / "a.gguf").touch()
    assert gguf_file(str(tmp_path)).name == "a.gguf"
    assert LlamaLlm.requirements(Setup("llm", model="smollm2-135m")) == []
    assert hub_file("a/b/c.gguf@main") == ("a/b", "c.gguf", "main")
    assert hub_file("a/b/c.gguf") == ("a/b", "c.gguf", None)
    assert [hub_file(name) for name in ("a/b", "./b/c.gguf", "smollm2-135m")] == [None] * 3
    assert LlamaLlm.requirements(Setup("llm", model="a/b/c.gguf@main")) == []
    setup = Setup("llm", options={"projector": "no/such/mmproj.gguf"})
    assert "no/such/mmproj.gguf@REVISION" in LlamaLlm.requirements(setup)[0]
    assert "smollm2" in LlamaLlm.requirements(Setup("llm", model="smollm"))[0]
