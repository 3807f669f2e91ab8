"""The Dockerfile: stages that exist, extras that exist, everything copied, nothing as root."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
STAGES = {block.split(" AS ")[1].split()[0]: block for block in re.split(r"(?m)^FROM ", TEXT)[1:]}
IMAGES = ("media", "ray", "trt", "voice")


def test_there_is_an_image_for_each_profile_and_voice_is_the_default() -> None:
    assert set(STAGES) == {"base", *IMAGES}
    assert list(STAGES)[-1] == "voice"


def test_what_comes_from_elsewhere_is_pinned() -> None:
    args = dict(re.findall(r"(?m)^ARG (\w+)=(\S+)", TEXT))
    for block in STAGES.values():
        source = block.split()[0]
        source = args[source[2:-1]] if source.startswith("${") else source
        assert source in STAGES or re.search(r":\d+\.\d+\.\d+", source), source


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_installs_extras_that_exist_and_runs_as_its_own_user(image: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", STAGES[image])
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    lines = STAGES[image].splitlines()
    after = lines[lines.index("USER motet") :]
    assert any(line.startswith("CMD ") for line in after)
    assert not any(line.startswith(("USER root", "RUN ")) for line in after)


def test_every_folder_of_the_package_is_copied() -> None:
    copied = {name for line in re.findall(r"(?m)^COPY (?!--)(.+)", TEXT) for name in line.split()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    rooms = {
        name.split(".")[1] for name in project["tool"]["setuptools"]["packages"] if "." in name
    }
    assert rooms <= copied
    assert all((ROOT / name).exists() for name in copied)
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert not copied & set(ignored)
