"""Which pipeline a client's `model` means, and how a start that fails is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from motet.components.errors import BadInput, SpecError
from motet.pipelines import build, load
from motet.pipelines.spec import ConversationSpec, PipelineSpec
from motet.streaming.cli import main
from motet.streaming.needs import CHAT, CONVERSATION, LIVE, SPEECH, TRANSCRIPTION, Need
from motet.streaming.server import Server
from motet.streaming.settings import Settings

TEXTS = Need("takes texts", "embed", ("TextInput",))


def server(**uses: str) -> Server:
    """A server of pipelines of one component each."""
    specs = [
        {"name": name, "nodes": {"n": {"use": use}}, "edges": ["input -> n -> output"]}
        for name, use in uses.items()
    ]
    return Server.make([build(PipelineSpec.model_validate(spec)) for spec in specs], Settings())


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("echo", "echo"),
        ("speaker", "speaker"),
        ("speakr", "speaker"),
        ("gpt-realtime", "echo"),
        ("ech0", "echo"),
        (None, "echo"),
    ],
)
def test_a_name_is_ours_or_nearly_or_anybodys(model: str | None, name: str) -> None:
    made = server(echo="fakes:Echo", speaker="fakes:Flood", nothing="jobfakes:Nothing")
    assert made.find(model, TEXTS).name == name


def test_one_of_ours_that_cannot_do_it_is_not_replaced_in_silence() -> None:
    made = server(echo="fakes:Echo", nothing="jobfakes:Nothing")
    with pytest.raises(BadInput, match=r"'nothing' isn't .* takes texts; possible: echo"):
        made.find("nothing", TEXTS)


def test_what_nothing_here_does_is_told_with_what_does_it() -> None:
    made = Server.make([load("voice")], Settings())
    with pytest.raises(BadInput) as error:
        made.find("voice", TRANSCRIPTION)
    assert error.value.message == "nothing here transcribes files; serve `transcribe` too"


@pytest.mark.parametrize("model", [None, "gpt-4o"])
@pytest.mark.parametrize(
    ("need", "best"),
    [(CHAT, "chat"), (SPEECH, "speak"), (LIVE, "listen"), (CONVERSATION, "voice")],
)
def test_a_name_of_others_means_what_suits_the_door_best(
    need: Need, best: str, model: str | None
) -> None:
    texts = load("chat").spec.model_copy(
        update={"name": "texts", "conversation": ConversationSpec()}
    )
    listen = {
        "name": "listen",
        "nodes": {"asr": {"use": "asr/ct2"}},
        "edges": ["input -> asr -> output"],
    }
    graphs = [build(texts), load("voice"), load("chat"), load("speak")]
    made = Server.make([*graphs, build(PipelineSpec.model_validate(listen))], Settings())
    assert made.find(model, need).name == best
    assert made.find("voice", need).name == "voice"


def test_a_name_that_stands_for_two_pipelines_is_refused(tmp_path: Path) -> None:
    spec = {"name": "b", "nodes": {"n": {"use": "fakes:Echo"}}, "edges": ["input -> n -> output"]}
    files = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    for file in files:
        file.write_text(yaml.safe_dump(spec))
    graphs = [load("chat"), load("chat"), *map(load, files)]
    with pytest.raises(SpecError) as error:
        Server.make(graphs, Settings())
    assert "'chat' is the name of 2 pipelines (chat, chat)" in str(error.value)
    assert f"'b' is the name of 2 pipelines ({files[0]}, {files[1]})" in str(error.value)


def test_a_start_that_fails_is_told_in_a_line(tmp_path: Path) -> None:
    spec = {
        "name": "t",
        "nodes": {"n": {"use": "workerfakes:Loads", "options": {"fails": True}}},
        "edges": ["input -> n -> output"],
    }
    file = tmp_path / "t.yaml"
    file.write_text(yaml.safe_dump(spec))
    support = str(Path(__file__).parents[1] / "support")
    code = f"import sys; sys.path.insert(0, {support!r}); from motet.streaming.cli import main; "
    ran = subprocess.run(
        [sys.executable, "-c", code + f"sys.exit(main(['serve', {str(file)!r}, '--port', '0']))"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert ran.returncode != 0
    assert "the weights are not there" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("flag", ["--tls-cert", "--tls-key"])
def test_a_missing_file_for_tls_is_named(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there.pem"
    there.touch()
    other = "--tls-key" if flag == "--tls-cert" else "--tls-cert"
    gone = str(tmp_path / "gone.pem")
    with pytest.raises(SystemExit) as ended:
        main(["serve", "chat", flag, gone, other, str(there)])
    assert ended.value.code == 2
    assert f"{flag}: '{gone}' is no file" in capsys.readouterr().err
