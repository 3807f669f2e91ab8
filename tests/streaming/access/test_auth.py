"""Keys: hashed at rest, required beyond loopback, foreign pages kept out."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from motet.components.errors import BadInput, SpecError
from motet.streaming.access.auth import Unauthorized, bearer, load_keys, unasked
from motet.streaming.access.keyfile import add_key, read_keys, remove_key
from motet.streaming.access.origin import origin_allowed
from motet.streaming.settings import Settings, from_environment


def test_a_key_is_kept_as_a_hash_and_found_again(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    key = add_key(file, "alice", {"max_sessions": 3})
    add_key(file, "bob")
    assert key not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    ring = load_keys(Settings(keys_file=file))
    assert ring.check(key).name == "alice"
    assert ring.check(key).max_sessions == 3
    for wrong in (None, "", key[:-1], key + "x"):
        with pytest.raises(Unauthorized):
            ring.check(wrong)
    remove_key(file, "alice")
    assert [stored.name for stored in read_keys(file)] == ["bob"]


def test_names_are_taken_once_and_unknown_ones_listed(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    add_key(file, "alice")
    with pytest.raises(BadInput, match="already"):
        add_key(file, "alice")
    with pytest.raises(BadInput, match="known: alice"):
        remove_key(file, "carol")


def test_beyond_loopback_a_key_is_needed(tmp_path: Path) -> None:
    assert not load_keys(Settings()).required
    with pytest.raises(SpecError, match="a key is needed"):
        load_keys(Settings(host="0.0.0.0", data_dir=tmp_path))
    ring = load_keys(Settings(host="0.0.0.0", api_keys=("secret",), data_dir=tmp_path))
    assert ring.check("secret").name == "environment-1"


def test_a_running_server_sees_keys_come_and_go(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    ring = load_keys(Settings(keys_file=file))
    assert ring.check(None).name == ""
    alice = add_key(file, "alice")
    assert ring.check(alice).name == "alice"
    with pytest.raises(Unauthorized):
        ring.check(None)
    bob = add_key(file, "bob")
    assert ring.check(bob).name == "bob"
    file.write_text("[damaged")
    assert ring.check(bob).name == "bob"
    file.write_text("[]")
    for key in (alice, bob, None):
        with pytest.raises(Unauthorized):
            ring.check(key)


def test_beyond_loopback_the_file_that_motet_keys_writes_is_read(tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys.json", "alice")
    assert load_keys(Settings(host="0.0.0.0", data_dir=tmp_path)).check(key).name == "alice"
    assert not load_keys(Settings(data_dir=tmp_path)).required


def test_a_damaged_key_file_says_so(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    for broken in (
        '[{"nam": "x"}]',
        '{"name": "x"}',
        '[{"name": "x", "sha256": 5}]',
        '[{"name": "x", "sha256": "\u00e9"}]',
        f'[{{"name": "x", "sha256": "{"0" * 64}", "max_sessions": "many"}}]',
        "[" * 100_000,
    ):
        file.write_text(broken)
        with pytest.raises(SpecError, match="no key file"):
            load_keys(Settings(keys_file=file))


def test_keys_made_at_once_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "keys.json"
    names = [f"key {n}" for n in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: add_key(file, name), names))
    assert sorted(one.name for one in read_keys(file)) == sorted(names)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: remove_key(file, name), names))
    assert read_keys(file) == []


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"host": "127.0.0.1:8000"}, True),
        ({"host": "localhost:8000", "origin": "http://localhost:8000"}, True),
        ({"host": "localhost:8000", "origin": "https://evil.example"}, False),
        ({"host": "localhost:8000", "origin": "https://app.example"}, True),
        ({"host": "rebound.example:8000", "origin": "http://rebound.example:8000"}, False),
        ({"host": "localhost:8000", "origin": "null"}, False),
        ({"host": "127.0.0.1.a.example", "origin": "http://127.0.0.1.a.example"}, False),
        ({"host": "127.rebound.example:8000"}, False),
        ({"host": "[::1]:8000", "origin": "http://[::1]:8000"}, True),
        ({"host": "["}, False),
        ({"host": "[::1"}, False),
        ({"host": "localhost:8000", "origin": "http://["}, False),
    ],
)
def test_foreign_pages_are_kept_out(headers: dict[str, str], allowed: bool) -> None:
    settings = Settings(allow_origins=("https://app.example",))
    assert origin_allowed(headers, settings) is allowed


def test_keys_come_in_either_header() -> None:
    assert bearer({"authorization": "Bearer k"}) == "k"
    assert bearer({"authorization": "bearer  k "}) == "k"
    assert bearer({"api-key": "k"}) == "k"
    assert bearer({"authorization": "Basic k"}) is None


def test_settings_come_from_flags_over_the_environment() -> None:
    environment = {"MOTET_PORT": "9000", "MOTET_API_KEYS": "a, b", "OTHER": "x"}
    settings = from_environment({"port": None, "host": "::1"}, environment)
    assert (settings.port, settings.host, settings.api_keys) == (9000, "::1", ("a", "b"))
    with pytest.raises(SpecError, match=r"port.*99999.*\n?.*max_sessions"):
        from_environment({"port": 99999, "max_sessions": 0}, {})


def test_a_keys_file_that_no_request_is_held_to_is_told(tmp_path: Path) -> None:
    here = Settings(data_dir=tmp_path)
    assert unasked(here) is None
    add_key(tmp_path / "keys.json", "ada")
    assert unasked(here) == tmp_path / "keys.json"
    assert unasked(here.model_copy(update={"keys_file": tmp_path / "keys.json"})) is None
    assert unasked(here.model_copy(update={"host": "0.0.0.0"})) is None
