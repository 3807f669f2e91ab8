"""The plan of the house: arrows downwards, small files, every folder packaged, nothing hidden."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ["kernels", "components", "pipelines", "streaming"]
MAX_LINES = 300


def files(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in found if "_pb2" not in path.name)


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a file imports from, relative or by the name `motet.`."""
    here = path.relative_to(ROOT).parts[:-1]
    rooms: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = list(here[: len(here) - node.level + 1]) if node.level else []
            parts = [*base, *(node.module or "").split(".")]
            if node.level and len(here) < node.level:
                parts = (node.module or "").split(".")
                parts = parts if parts[0] else [node.names[0].name]
            names = parts[1:] if not node.level and parts[0] == "motet" else parts
            if node.level or parts[0] == "motet":
                rooms.add(names[0] if names and names[0] else node.names[0].name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("motet."):
                    rooms.add(alias.name.split(".")[1])
    return rooms & set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_fall_downwards(room: str) -> None:
    above = set(ROOMS[ROOMS.index(room) + 1 :])
    wrong = {
        str(path.relative_to(ROOT)): sorted(imported_rooms(path) & above) for path in files(room)
    }
    assert {path: rooms for path, rooms in wrong.items() if rooms} == {}


def test_kernels_import_nothing_of_ours() -> None:
    assert {str(p): imported_rooms(p) - {"kernels"} for p in files("kernels")} == {
        str(p): set() for p in files("kernels")
    }


def test_kinds_of_component_do_not_import_each_other() -> None:
    kinds = {p.name for p in (ROOT / "components").iterdir() if (p / "__init__.py").is_file()}
    wrong: list[str] = []
    for path in files("components"):
        parts = path.relative_to(ROOT).parts
        if len(parts) < 3:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level >= 2:
                up = parts[: len(parts) - node.level]
                target = [*up, *(node.module or "").split(".")]
                if len(target) > 1 and target[1] in kinds - {parts[1], "wire", "frames"}:
                    wrong.append(f"{'/'.join(parts)} imports {target[1]}")
    assert wrong == []


def test_a_file_is_one_noun() -> None:
    sizes = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in files(*ROOMS)}
    assert {path: size for path, size in sizes.items() if size > MAX_LINES} == {}


def test_every_file_says_what_it_is_for() -> None:
    silent = [
        str(p.relative_to(ROOT))
        for p in files(*ROOMS)
        if not ast.get_docstring(ast.parse(p.read_text()))
    ]
    assert silent == []


def test_every_folder_is_packaged() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = set(project["tool"]["setuptools"]["packages"])
    folders = {path.parent.relative_to(ROOT) for path in files(*ROOMS)}
    needed = {"motet", "motet.configs"} | {".".join(("motet", *f.parts)) for f in folders}
    assert needed - packages == set(), "add these to packages in pyproject.toml"
    missing = [p for p in packages if not (ROOT / Path(*p.split(".")[1:])).is_dir()]
    assert missing == [], "packages lists folders that aren't there"


def test_every_file_beside_the_code_is_packaged() -> None:
    """Pages, weights, schemas and configs: what the checkout has, the wheel has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    data: dict[str, list[str]] = project["tool"]["setuptools"]["package-data"]
    packaged = {
        path
        for package, patterns in data.items()
        for pattern in patterns
        for path in ROOT.joinpath(*package.split(".")[1:]).glob(pattern)
    }
    there = {
        path
        for room in [*ROOMS, "configs"]
        for path in (ROOT / room).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc", ".pyi"}
    }
    missing = sorted(str(path.relative_to(ROOT)) for path in there - packaged)
    assert missing == [], "add these to package-data in pyproject.toml"


def test_no_init_hides_an_installed_package() -> None:
    """With the root on sys.path, `kernels` and `streaming` would shadow packages of those names."""
    assert not (ROOT / "kernels" / "__init__.py").exists()
    assert not (ROOT / "streaming" / "__init__.py").exists()


def test_the_root_holds_no_other_module() -> None:
    assert {p.name for p in ROOT.glob("*.py")} == {"__init__.py", "__main__.py"}
    assert len(ast.parse((ROOT / "__init__.py").read_text()).body) == 1


def test_ready_made_pipelines_have_their_own_names() -> None:
    import yaml

    for path in sorted((ROOT / "configs").glob("*.yaml")):
        value = yaml.safe_load(path.read_text())
        if isinstance(value, dict) and "nodes" in value:
            assert value["name"] == path.stem
