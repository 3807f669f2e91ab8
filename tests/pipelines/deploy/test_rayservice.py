"""A RayService: valid where it can be told offline, as approved, and its parts fit each other."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from motet.components.errors import SpecError
from motet.pipelines import Graph, build
from motet.pipelines.deploy.kubernetes import DeploySettings
from motet.pipelines.deploy.rayservice import RAY_VERSION, ray_manifests
from motet.pipelines.deploy.text import render
from motet.pipelines.spec import NodeSpec, PipelineSpec

ROOT = Path(__file__).parents[3]
GOLDEN = Path(__file__).parents[1] / "kubernetes" / "voice-ray.yaml"
SETTINGS = DeploySettings("registry.example/motet-ray:1.0", namespace="speech", tls_secret="hop")


def graph(name: str = "voice", **extra: Any) -> Graph:
    asr = {
        "use": "fakes:Hear",
        "scale": {"min_replicas": 2, "max_replicas": 20, "concurrency": 16},
        "resources": {"cpus": 2, "memory_gb": 3},
    }
    llm = {
        "use": "fakes:Answer",
        "scale": {"min_replicas": 0, "max_replicas": 5},
        "resources": {"cpus": 4, "gpus": 0.5, "memory_gb": 24},
    }
    spec = {
        "name": name,
        "nodes": {"asr": asr, "llm": llm, "tts": {"use": "fakes:Say"}},
        "edges": ["input -> asr -> conversation", "conversation -> llm -> tts -> output"],
        "conversation": {},
        **extra,
    }
    return build(PipelineSpec.model_validate(spec))


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


TEXT, WHOLE = {"type": "string"}, {"type": "integer", "minimum": 0}
TEXTS = {"type": "object", "additionalProperties": TEXT}
GROUP = {"rayStartParams": TEXTS, "template": {"type": "object"}}
RAY_SERVICE = closed(
    apiVersion={"const": "ray.io/v1"},
    kind={"const": "RayService"},
    metadata=closed(name={"type": "string", "maxLength": 47}, namespace=TEXT, labels=TEXTS),
    spec=closed(
        serveConfigV2=TEXT,
        upgradeStrategy=closed(
            type={"enum": ["None", "NewCluster", "NewClusterWithIncrementalUpgrade"]}
        ),
        rayClusterDeletionDelaySeconds=WHOLE,
        excludeHeadPodFromServeSvc={"type": "boolean"},
        rayClusterConfig=closed(
            rayVersion=TEXT,
            enableInTreeAutoscaling={"type": "boolean"},
            headGroupSpec=closed(**GROUP),
            workerGroupSpecs={
                "type": "array",
                "items": closed(
                    groupName=TEXT, replicas=WHOLE, minReplicas=WHOLE, maxReplicas=WHOLE, **GROUP
                ),
            },
        ),
    ),
)


def objects(made: Graph | None = None) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (one["kind"], one["metadata"]["name"]): one
        for one in ray_manifests(made or graph(), SETTINGS)
    }


def cluster(made: Graph | None = None) -> dict[str, Any]:
    return objects(made)["RayService", "motet-voice"]["spec"]["rayClusterConfig"]


def groups(made: Graph | None = None) -> dict[str, dict[str, Any]]:
    return {one["groupName"]: one for one in cluster(made)["workerGroupSpecs"]}


def test_the_service_is_valid_and_as_approved() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    found = objects()
    service = found["RayService", "motet-voice"]
    jsonschema.Draft202012Validator(RAY_SERVICE).validate(service)
    config = service["spec"]["rayClusterConfig"]
    for group in (config["headGroupSpec"], *config["workerGroupSpecs"]):
        one = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "x"},
            "template": group["template"],
        }
        kubernetes_validate.validate(one, "1.33", strict=True)
    for one in found.values():
        if one["apiVersion"] in ("v1", "apps/v1", "policy/v1", "networking.k8s.io/v1"):
            kubernetes_validate.validate(one, "1.33", strict=True)
    assert list(yaml.safe_load_all(GOLDEN.read_text())) == list(found.values())
    assert list(yaml.safe_load_all(render(list(found.values())))) == list(found.values())


def config_of(made: Graph | None = None) -> dict[str, Any]:
    return yaml.safe_load(objects(made)["RayService", "motet-voice"]["spec"]["serveConfigV2"])


def test_applications_get_the_very_nodes_that_were_given() -> None:
    made = graph()
    applications = {one["name"]: one for one in config_of(made)["applications"]}
    assert set(applications) == {f"motet-voice-{node}" for node in made.nodes}
    for name, node in made.nodes.items():
        arguments = applications[f"motet-voice-{name}"]["args"]
        assert NodeSpec.model_validate(arguments["spec"]) == node.spec
        assert (arguments["pipeline"], arguments["node"]) == ("voice", name)
        assert arguments["tls_dir"] == "/etc/motet-tls"


def test_a_change_of_one_component_changes_its_application_alone() -> None:
    before = config_of()["applications"]
    nodes = {name: node.spec for name, node in graph().nodes.items()}
    changed = {**nodes, "tts": {"use": "fakes:Say", "scale": {"concurrency": 3}}}
    after = config_of(graph(nodes=changed))["applications"]
    assert [one["name"] for one, two in zip(before, after, strict=True) if one != two] == [
        "motet-voice-tts"
    ]


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray: `make ray-test`")
@pytest.mark.filterwarnings("default")
def test_serve_takes_the_config_and_finds_what_it_imports() -> None:
    from ray.serve.schema import ServeDeploySchema

    from motet.pipelines.runtimes.ray.service import AppArguments

    checked = ServeDeploySchema.model_validate(config_of())
    for one in checked.applications:
        module, _, name = one.import_path.partition(":")
        assert hasattr(importlib.import_module(module), name)
        AppArguments.model_validate(one.args)


def test_a_pod_has_places_for_the_replicas_of_its_component_alone() -> None:
    asr, llm = groups()["asr"], groups()["llm"]
    assert (asr["minReplicas"], asr["maxReplicas"]) == (2, 20)
    # KubeRay puts the text behind `ray start --resources=` for a shell.
    (places,) = shlex.split(asr["rayStartParams"]["resources"])
    assert json.loads(places) == {"motet-asr": 1}
    (places,) = shlex.split(llm["rayStartParams"]["resources"])
    assert json.loads(places) == {"motet-llm": 2}, "two share a GPU"
    assert (llm["minReplicas"], llm["maxReplicas"]) == (0, 3)
    assert llm["rayStartParams"]["num-cpus"] == "8"
    container = llm["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert container["resources"]["requests"]["cpu"] == "8000m"
    assert cluster()["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert groups()["gateway"]["rayStartParams"]["num-cpus"] == "0"


def test_the_gateway_joins_the_cluster_and_serves_what_the_service_deployed() -> None:
    from motet.streaming.cli import parser

    gateway = groups()["gateway"]["template"]
    assert gateway["metadata"]["annotations"]["ray.io/overwrite-container-cmd"] == "true"
    (container,) = gateway["spec"]["containers"]
    joins, _, serves = container["args"][0].partition(" & exec ")
    assert joins.endswith("$KUBERAY_GEN_RAY_START_CMD")
    command = shlex.split(serves)
    parsed = parser().parse_args(command[1:])
    assert parsed.runtime == "rayservice"
    service = objects()["Service", "motet-voice-gateway"]["spec"]
    assert service["selector"].items() <= gateway["metadata"]["labels"].items()
    for name in ("asr", "llm", "tts"):
        template = groups()[name]["template"]
        assert "ray.io/overwrite-container-cmd" not in template["metadata"]["annotations"]
        assert "command" not in template["spec"]["containers"][0]


def test_rays_ports_are_closed_to_strangers() -> None:
    policy = objects()["NetworkPolicy", "motet-voice-ray"]["spec"]
    config = cluster()
    for group in (config["headGroupSpec"], *config["workerGroupSpecs"]):
        labels = group["template"]["metadata"]["labels"]
        assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert all("from" in rule for rule in policy["ingress"])


def test_the_version_of_ray_is_that_of_the_image() -> None:
    (pinned,) = re.findall(r"(?m)^ray==(.+)$", (ROOT / "constraints.txt").read_text())
    assert pinned == RAY_VERSION


def test_what_ray_or_kuberay_cannot_do_is_refused() -> None:
    nodes = {"a": {"use": "fakes:Hear", "preload": False}}
    edges = ["input -> a -> output"]
    for spec, path in (
        ({"name": "t", "nodes": nodes, "edges": edges}, "nodes.a.preload"),
        ({"name": "t" * 50, "nodes": {"a": {"use": "fakes:Hear"}}, "edges": edges}, "name"),
    ):
        with pytest.raises(SpecError) as caught:
            ray_manifests(build(PipelineSpec.model_validate(spec)), SETTINGS)
        assert [flaw.path for flaw in caught.value.flaws] == [path]
