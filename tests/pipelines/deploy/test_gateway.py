"""The gateways of a deployment: what they are told is what a server understands."""

from __future__ import annotations

from typing import Any

import pytest

from motet.pipelines import load
from motet.pipelines.deploy.kubernetes import DeploySettings, manifests
from motet.pipelines.deploy.rayservice import ray_manifests
from motet.streaming.access.ephemeral import Sealed, ephemeral_keys
from motet.streaming.settings import from_environment

SECRET = {"api-keys": "mk-a mk-b", "ephemeral-secret": "0123456789abcdef" * 2, "admin-keys": "mk-c"}


def gateways(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The gateway's containers, wherever in the objects they stand."""
    found: list[dict[str, Any]] = []
    waiting: list[Any] = [*made]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
            if one.get("name") == "gateway" and "env" in one:
                found.append(one)
        elif isinstance(one, list):
            waiting += one
    return found


@pytest.mark.parametrize("made", [manifests, ray_manifests])
async def test_all_gateways_seal_ephemeral_keys_with_one_secret(made: Any) -> None:
    settings = DeploySettings("image", keys_secret="ours", gateways=3)
    (container,) = gateways(made(load("voice"), settings))
    refs = {
        one["name"]: one["valueFrom"]["secretKeyRef"]
        for one in container["env"]
        if "valueFrom" in one
    }
    assert {ref["name"] for ref in refs.values()} == {"ours"}
    assert not refs["MOTET_EPHEMERAL_SECRET"].get("optional"), "each would make its own"
    environment = {name: SECRET[ref["key"]] for name, ref in refs.items()}
    asked = Sealed(
        maker="", priority=0, model=None, kind="realtime", session={}, expires_at=2_000_000_000
    )
    one, other = (ephemeral_keys(from_environment({}, environment)) for _ in range(2))
    assert await other.read(await one.make(asked)) == asked
