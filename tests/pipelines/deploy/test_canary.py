"""Manifests with a canary: what differs runs beside what is there, which nothing touches."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import yaml
from kubeschemas import validate

from motet.components.errors import SpecError
from motet.pipelines import Graph, build, parse
from motet.pipelines.deploy.canary import guide
from motet.pipelines.deploy.kubernetes import CANARYS_END, DeploySettings, Naming, manifests
from motet.pipelines.deploy.rayservice import application, ray_manifests
from motet.pipelines.spec import PipelineSpec
from motet.streaming.cli import parser
from motet.streaming.commands.canary import target

SETTINGS = DeploySettings("image:1", namespace="speech")
Found = dict[tuple[str, str], dict[str, Any]]


def graph(name: str = "voice", nodes: dict[str, Any] | None = None, **tts: Any) -> Graph:
    asr = {"use": "fakes:Hear", "scale": {"max_replicas": 4}}
    given = {"asr": asr, "tts": {"use": "fakes:Say", **tts}, **(nodes or {})}
    edges = ["input -> asr -> output", "input -> tts -> output"]
    edges += [f"input -> {one} -> output" for one in nodes or {}]
    return build(PipelineSpec.model_validate({"name": name, "nodes": given, "edges": edges}))


NEW = graph(model="other", scale={"max_replicas": 2})


def objects(canary: Graph | None = NEW, settings: DeploySettings = SETTINGS) -> Found:
    made = manifests(graph(), settings, canary=canary)
    return {(one["kind"], one["metadata"]["name"]): one for one in made}


def test_only_what_differs_is_there_twice_and_the_rest_is_untouched() -> None:
    found, before = objects(), objects(None)
    for one in found.values():
        validate(one)
    assert {name for _, name in found.keys() - before.keys()} == {"motet-voice-tts-canary"}
    assert {kind for kind, _ in found.keys() - before.keys()} == {
        *("Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "ScaledObject")
    }
    touched = {key for key in before if found[key] != before[key]}
    assert touched == {("ConfigMap", "motet-voice-pipeline")}, "no pod is replaced"
    files = found["ConfigMap", "motet-voice-pipeline"]["data"]
    assert parse(files["canary.yaml"]).spec == NEW.spec
    assert parse(files["pipeline.yaml"]).spec == graph().spec


def test_the_canarys_pods_read_its_file_and_are_nobody_elses() -> None:
    found = objects()
    name = "motet-voice-tts-canary"
    pod = found["Deployment", name]["spec"]["template"]
    assert pod["spec"]["containers"][0]["command"][2:4] == ["/etc/motet/canary.yaml", "tts"]
    labels = pod["metadata"]["labels"]
    for kind, label in (("Service", "motet-voice-tts"), ("Service", name)):
        selected = found[kind, label]["spec"]["selector"].items() <= labels.items()
        assert selected == (label == name)
    scaled = found["ScaledObject", name]["spec"]
    assert scaled["scaleTargetRef"] == {"name": name}
    assert 'target="motet-voice-tts-canary.speech.svc:50061"' in str(scaled["triggers"])


def test_another_image_alone_makes_a_canary() -> None:
    settings = DeploySettings("image:1", node_images={"asr-canary": "image:2", "tts": "tts:1"})
    found = objects(settings=settings)

    def image(part: str) -> str:
        pod = found["Deployment", f"motet-voice-{part}"]["spec"]["template"]["spec"]
        return pod["containers"][0]["image"]

    assert [image(part) for part in ("asr", "asr-canary", "tts", "tts-canary")] == [
        *("image:1", "image:2", "tts:1", "tts:1")
    ]
    with pytest.raises(SpecError, match=r"node_images\.asr-canary: is no node"):
        objects(None, settings)


def test_names_that_are_taken_and_other_pipelines_are_refused() -> None:
    taken = graph(nodes={"tts-canary": {"use": "fakes:Say"}})
    with pytest.raises(SpecError, match=r"nodes\.tts-canary: another part is named"):
        manifests(taken, SETTINGS, canary=NEW)
    with pytest.raises(SpecError, match="a canary of 'voice' is needed"):
        objects(graph("other"))


def test_the_guide_begins_it_at_every_gateway() -> None:
    told = guide(graph(), NEW, SETTINGS, Naming.target, CANARYS_END)
    assert yaml.safe_load(told) is None, "a comment"
    begin = next(line for line in told.splitlines() if "motet canary start" in line)
    command = shlex.split(begin.partition("motet ")[2])
    parsed = parser().parse_args(command)
    assert parsed.targets == [target("tts=motet-voice-tts-canary.speech.svc:50061")]
    assert parsed.file == "canary.yaml"
    assert "delete all that is named motet-voice-tts-canary" in told


def test_on_ray_it_has_a_group_and_an_application_of_its_own() -> None:
    def service(canary: Graph | None) -> dict[str, Any]:
        made = ray_manifests(graph(), SETTINGS, canary=canary)
        return next(one["spec"] for one in made if one["kind"] == "RayService")

    found, before = service(NEW), service(None)
    groups, old = (one["rayClusterConfig"]["workerGroupSpecs"] for one in (found, before))
    assert groups[:-1] == old, "KubeRay brings groups to a running cluster at the end alone"
    assert groups[-1]["groupName"] == "tts-canary"
    assert groups[-1]["minReplicas"] == 0
    apps, others = (yaml.safe_load(one["serveConfigV2"])["applications"] for one in (found, before))
    assert apps[:-1] == others
    assert apps[-1]["name"] == application(Naming(NEW, SETTINGS, canary=True), "tts")
    assert apps[-1]["args"]["part"] == "tts-canary"
    assert f"motet-{apps[-1]['args']['part']}" in groups[-1]["rayStartParams"]["resources"]
