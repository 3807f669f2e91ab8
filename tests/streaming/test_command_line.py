"""The command line's grammar: everything in it is told, and addresses are what people write."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from serving import serving

from motet.components.errors import MotetError
from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.cli import main, parser
from motet.streaming.commands.remote import address
from motet.streaming.jobs import command

ECHO = {"name": "t", "nodes": {"n": {"use": "fakes:Echo"}}, "edges": ["input -> n -> output"]}


def walk(command: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, Any]]:
    """Every argument of a command and of those within it."""
    for action in command._actions:
        yield command, action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from walk(inner)


def test_every_argument_of_every_command_has_a_line_of_help() -> None:
    found = list(walk(parser()))
    silent = [
        f"{command.prog}: {action.option_strings or action.dest}"
        for command, action in found
        if not isinstance(action, argparse._SubParsersAction) and not action.help
    ]
    assert silent == []
    assert len(found) > 150


def test_every_command_says_what_it_does_where_it_is_listed_and_in_its_own_help() -> None:
    for _, action in walk(parser()):
        if isinstance(action, argparse._SubParsersAction):
            listed = {one.dest: one.help for one in action._choices_actions}
            for name, inner in action.choices.items():
                assert listed.get(name), f"{inner.prog} isn't told"
                assert inner.description == f"{listed[name][0].upper()}{listed[name][1:]}."


def test_help_of_every_command_can_be_printed() -> None:
    """A lone % in a help line breaks it."""
    for inner, action in walk(parser()):
        if isinstance(action, argparse._HelpAction):
            assert inner.format_help()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("localhost:8000", "http://localhost:8000"),
        ("http://localhost:8000/", "http://localhost:8000"),
        ("http://localhost:8000/v1", "http://localhost:8000"),
        ("http://localhost:8000/v1/", "http://localhost:8000"),
        ("https://voice.example/motet/", "https://voice.example/motet"),
        ("voice.example/motet/v1", "http://voice.example/motet"),
        ("gpu1", "http://gpu1"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("HTTP://LOCALHOST:80", "http://LOCALHOST:80"),
    ],
)
def test_addresses_are_what_people_write(written: str, meant: str) -> None:
    assert address(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        *(
            "",
            "http://",
            ":8000",
            "ftp://host",
            "ws://host/v1",
            "host:port",
            "host:0",
            "host:99999",
        ),
        *("http://host?key=1", "http://host#x", "[::1:8000", "http:///v1"),
    ],
)
@pytest.mark.parametrize("asked", [["jobs", "--server"], ["status", "--url"]])
def test_what_is_no_address_is_told_before_anything_is_asked(
    written: str, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rest = ["list"] if asked[0] == "jobs" else []
    with pytest.raises(SystemExit) as ended:
        main([*asked, written, *rest])
    assert ended.value.code == 2
    assert "possible: HOST:PORT" in capsys.readouterr().err


def job(**facts: Any) -> dict[str, Any]:
    return {
        "id": "job_1",
        "state": "completed",
        "progress": {"fraction": 1.0},
        "created_at": "2026-11-30",
        "pipeline": "work",
        "input": {"name": ""},
        "error": None,
        **facts,
    }


@pytest.mark.parametrize(
    ("facts", "end"),
    [
        ({"input": {"name": "talk.mp3"}}, "2026-11-30  talk.mp3"),
        ({"input": {"name": "", "prompt": "a cat\non a mat"}}, "2026-11-30  a cat on a mat"),
        ({"input": {"name": "", "prompt": "word " * 50}}, f"{'word ' * 11}word…"),
        ({"input": {"name": "", "url": "https://x.example/"}}, "https://x.example/"),
        ({}, "2026-11-30  work"),
        (
            {"state": "failed", "error": {"code": "invalid_value", "message": "no\nsound"}},
            "work  (no sound)",
        ),
    ],
)
def test_a_job_is_listed_with_what_it_is_about_and_why_it_failed(
    facts: dict[str, Any],
    end: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == "http://host/prefix/v1/jobs?limit=20"
        return httpx.Response(200, json={"data": [job(**facts)]})

    made = httpx.Client
    transport = httpx.MockTransport(answer)
    monkeypatch.setattr(command.httpx, "Client", lambda **more: made(transport=transport, **more))
    with pytest.raises(SystemExit) as ended:
        main(["jobs", "--server", "host/prefix/", "list"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.rstrip("\n").endswith(end)


@pytest.mark.parametrize(
    "asked",
    [
        ["jobs", "list", "--url", "host:1", "--key", "k"],
        ["jobs", "--server", "host:1", "--key", "k", "list"],
        ["jobs", "--url", "other:2", "get", "job_1", "--server", "host:1", "--key", "k"],
    ],
)
def test_the_server_is_named_before_the_action_or_after_it(asked: list[str]) -> None:
    parsed = parser().parse_args(asked)
    assert (parsed.server, parsed.key) == ("http://host:1", "k")


@pytest.mark.parametrize("limit", ["0", "-1", "101", "all"])
def test_lists_of_no_length_are_refused(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["jobs", "list", f"--limit={limit}"])
    assert ended.value.code == 2
    assert f"possible: 1 to 100, got {limit}" in capsys.readouterr().err


@pytest.mark.parametrize("asked", [["jobs", "list"], ["status"]])
@pytest.mark.parametrize("key", [None, "wrong"])
def test_where_a_key_is_needed_the_flag_for_it_is_named(
    asked: list[str],
    key: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("MOTET_API_KEY", raising=False)
    graph = build(PipelineSpec.model_validate(ECHO))
    with serving(graph, api_keys=("right",)) as url, pytest.raises(SystemExit) as ended:
        main([*asked, "--url", url, *(["--key", key] if key else [])])
    assert ended.value.code != 0
    said = capsys.readouterr().err
    assert ("--key KEY, or MOTET_API_KEY" in said) == (key is None)
    assert ("the API key is unknown" in said) == (key is not None)


def test_where_no_server_answers_the_flag_is_named() -> None:
    parsed = parser().parse_args(["jobs", "--server", "127.0.0.1:9", "list"])
    with pytest.raises(MotetError, match=r"no server answers.*; see --server"):
        command.run(parsed)
