"""The command line: what files and pipes refuse is told in a line, without a traceback."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from motet.streaming.cli import main


@pytest.mark.parametrize(
    "arguments",
    [["keys", "add", "x", "--keys-file"], ["check"]],
    ids=["a folder that is a file", "a pipeline within a file"],
)
def test_what_a_disk_refuses_is_a_line(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as ended:
        main([*arguments, str(tmp_path / "file" / "within")])
    said = capsys.readouterr()
    assert ended.value.code in (1, 2)
    assert str(tmp_path / "file") in said.err + said.out
    assert "Traceback" not in said.err


def test_a_reader_that_has_enough_is_no_fault(tmp_path: Path) -> None:
    script = "import sys; from motet.streaming.cli import main; main(sys.argv[1:])"
    reading = subprocess.Popen(
        [sys.executable, "-c", script, "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert reading.stdout
    assert reading.stderr
    reading.stdout.close()
    assert b"Traceback" not in reading.stderr.read()
    reading.stderr.close()
    assert reading.wait(30) in (0, 141)


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"motet {version('motet')}\n"


def test_a_component_tells_its_ports_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["components", "turn/smart"])
    told = capsys.readouterr().out.splitlines()
    assert told[1] == "takes Audio, Control"
    assert "  max_utterance_s  float = 120.0" in told
