"""Ephemeral keys as tokens: sealed, expiring, by a secret that is given or kept."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.components.errors import SpecError
from motet.streaming.access.auth import Unauthorized
from motet.streaming.access.ephemeral import EphemeralKeys, Sealed, ephemeral_keys, kept_secret
from motet.streaming.settings import Settings, from_environment

SECRET = "0123456789abcdef0123456789abcdef"


def sealed(**more: Any) -> Sealed:
    facts: dict[str, Any] = {
        "maker": "",
        "priority": 0,
        "model": None,
        "kind": "realtime",
        "session": {},
        "expires_at": 2_000_000_000,
    }
    return Sealed(**{**facts, **more})


def keys(*secrets: str, now_s: float = 1000.0) -> EphemeralKeys:
    return EphemeralKeys(secrets or (SECRET,), Path("nowhere"), clock=lambda: now_s)


async def test_a_key_holds_what_it_stands_for_until_it_expires() -> None:
    asked = sealed(session={"instructions": "Sing."}, model="voice", expires_at=1060)
    key = await keys().make(asked)
    assert await keys(now_s=1059).read(key) == asked
    with pytest.raises(Unauthorized, match="expired"):
        await keys(now_s=1060).read(key)


async def test_a_key_shows_nothing_and_is_one_word_of_a_header() -> None:
    asked = sealed(session={"instructions": "the launch code is swordfish" * 9}, maker="ab12")
    first, second = await keys().make(asked), await keys().make(asked)
    assert first != second, "equal settings can't be told from equal keys"
    assert "swordfish" not in first
    assert first.removeprefix("ek_").replace("-", "").replace("_", "").isalnum()


@given(place=st.integers(0, 10_000), to=st.characters(codec="utf-8"))
async def test_a_key_that_is_changed_anywhere_is_refused(place: int, to: str) -> None:
    key = await keys().make(sealed())
    at = 3 + place % (len(key) - 3)
    changed = key[:at] + to + key[at + 1 :]
    try:
        found = await keys().read(changed)
    except Unauthorized:
        return
    assert found == sealed(), "it stands for something else"


@pytest.mark.parametrize("key", ["ek_", "ek_x", "ek_ä", "ek_" + "A" * 7000, "ek_\x00"])
async def test_nonsense_is_refused(key: str) -> None:
    with pytest.raises(Unauthorized):
        await keys().read(key)


async def test_a_secret_is_replaced_while_keys_of_the_old_one_are_out() -> None:
    new = SECRET[::-1]
    old_key = await keys(SECRET).make(sealed())
    assert await keys(new, SECRET).read(old_key) == sealed()
    new_key = await keys(new, SECRET).make(sealed())
    assert await keys(new).read(new_key) == sealed()
    for ring, key in ((keys(new), old_key), (keys(SECRET), new_key)):
        with pytest.raises(Unauthorized, match="another secret"):
            await ring.read(key)


async def test_a_secret_that_nobody_gave_is_kept_beside_the_keys(tmp_path: Path) -> None:
    for settings, folder in (
        (Settings(data_dir=tmp_path / "data"), "data"),
        (Settings(keys_file=tmp_path / "keys" / "k.json", data_dir=tmp_path), "keys"),
    ):
        key = await ephemeral_keys(settings).make(sealed())
        file = tmp_path / folder / "ephemeral-secret"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert [one.name for one in file.parent.iterdir()] == [file.name]
        assert await ephemeral_keys(settings).read(key) == sealed(), "a restart has lost it"


async def test_where_it_can_not_be_kept_keys_last_as_long_as_the_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    settings = Settings(data_dir=tmp_path / "file")
    ring = ephemeral_keys(settings)
    assert await ring.read(await ring.make(sealed())) == sealed()
    assert "set MOTET_EPHEMERAL_SECRET" in caplog.text


def test_of_processes_that_start_at_once_one_makes_the_secret(tmp_path: Path) -> None:
    file = tmp_path / "new" / "secret"
    with ThreadPoolExecutor(16) as threads:
        found = set(threads.map(kept_secret, [file] * 64))
    assert found == {file.read_text().strip()}


def test_secrets_come_from_the_environment_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n{SECRET[::-1]}\n")
    one = from_environment({}, {"MOTET_EPHEMERAL_SECRET": f"{SECRET},{SECRET[::-1]}"})
    two = from_environment({"ephemeral_secret_file": file}, {})
    assert one.ephemeral_secret == (SECRET, SECRET[::-1])
    assert vars(ephemeral_keys(one))["_given"] == vars(ephemeral_keys(two))["_given"]


@pytest.mark.parametrize(
    ("given", "held", "told"),
    [
        (("short",), None, "32 random characters or more, got 5"),
        (("s" * 32, "short"), None, "got 5"),
        (("s" * 32,), "s" * 32, "exclude each other"),
        ((), "short", "secret: a secret needs"),
        ((), " \n", "holds no secret"),
        ((), "", "holds no secret"),
        ((), b"\xff" * 40, "can't be read"),
    ],
)
def test_secrets_that_are_none_are_told_at_the_start_and_not_shown(
    tmp_path: Path, given: tuple[str, ...], held: str | bytes | None, told: str
) -> None:
    file = tmp_path / "secret"
    if held is not None:
        file.write_bytes(held if isinstance(held, bytes) else held.encode())
    named = file if held is not None else None
    with pytest.raises(SpecError) as error:
        ephemeral_keys(Settings(ephemeral_secret=given, ephemeral_secret_file=named))
    assert told in str(error.value)
    assert not [secret for secret in given if secret in str(error.value)]


def test_a_damaged_file_of_our_own_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "ephemeral-secret").write_text("oops")
    with pytest.raises(SpecError, match="ephemeral-secret: a secret needs 32"):
        ephemeral_keys(Settings(data_dir=tmp_path))
