"""Replicas on other hosts that vanish without a word, and come back under another address."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from nodeprocess import node
from ports import HOST, OTHER_HOST, free_port

from motet.components.frames import Data, End, Fault, TextInput
from motet.pipelines import Pipeline, load
from motet.pipelines.runtimes.fleet import Fleet
from motet.pipelines.runtimes.link import LinkSettings
from motet.pipelines.runtimes.remote import RemoteRuntime

pytestmark = [pytest.mark.timeout(120), pytest.mark.slow]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_what_ran_there_fails_and_the_next_run_goes_to_the_new_address(
    how: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, port, hosts = tmp_path / "t.yaml", free_port(), [HOST]
    file.write_text(
        "name: t\nnodes: {a: {use: 'workerfakes:Worker'}}\nedges: [input -> a -> output]"
    )

    async def addresses(self: Fleet) -> list[str]:
        return [f"{host}:{port}" for host in hosts]

    fleet = "motet.pipelines.runtimes.fleet"
    monkeypatch.setattr(Fleet, "_addresses", addresses)
    monkeypatch.setattr(f"{fleet}.LOOK_S", 0.1)
    monkeypatch.setattr(f"{fleet}.LINK", LinkSettings(heartbeat_s=1.0, patience_s=4.0))
    made = load(str(file))
    async with node(file, "a", f"{HOST}:{port}") as first:
        runtime = RemoteRuntime(made, {"a": f"any:{port}"}, patience_s=60)
        async with Pipeline(made, runtime) as pipeline, pipeline.session() as session:
            session.start(1, TextInput("pid"), TextInput("sleep"))
            assert (await anext(session))[2] == Data(first)
            os.kill(first, how)
            hosts[:] = [OTHER_HOST]
            _, _, fault = await anext(session)
            assert isinstance(fault, Fault)
            assert fault.code == "replica_gone"
            assert f"{HOST}:{port} is gone" in fault.message
            assert (await anext(session))[2] == End()
            assert not pipeline.ready
            async with node(file, "a", f"{OTHER_HOST}:{port}") as second:
                session.start(2, TextInput("pid"))
                assert (await anext(session))[2] == Data(second), "it waited for the new one"
                assert [one.id for one in runtime.status()[0].replicas] == [f"{OTHER_HOST}:{port}"]
