"""Manifests: valid against Kubernetes' own schemas, and as they were read and approved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubeschemas import validate

from motet.components.errors import SpecError
from motet.pipelines import Graph, build, parse
from motet.pipelines.deploy.kubernetes import DeploySettings, manifests
from motet.pipelines.deploy.text import render
from motet.pipelines.scaling import BUSY
from motet.pipelines.spec import PipelineSpec

GOLDEN = Path(__file__).parents[1] / "kubernetes"
SETTINGS = DeploySettings("registry.example/motet:1.0", namespace="speech")


def graph(**extra: Any) -> Graph:
    slow = {
        "use": "fakes:Hear",
        "scale": {
            "min_replicas": 2,
            "max_replicas": 20,
            "concurrency": 16,
            "window_s": 10,
            "scale_down_delay_s": 600,
        },
        "resources": {"cpus": 2, "memory_gb": 3},
    }
    idle = {
        "use": "fakes:Answer",
        "scale": {"min_replicas": 0, "max_replicas": 4, "concurrency": 8},
        "resources": {"cpus": 4, "gpus": 1, "memory_gb": 24},
    }
    nodes = {"asr": slow, "llm": idle, "tts": {"use": "fakes:Say"}}
    spec = {
        "name": "voice",
        "description": "For tests.",
        "nodes": nodes,
        "edges": ["input -> asr -> conversation", "conversation -> llm -> tts -> output"],
        "conversation": {},
        "sessions": {"max_age_s": 3600},
        **extra,
    }
    return build(PipelineSpec.model_validate(spec))


def objects(made: Graph | None = None, **settings: Any) -> dict[tuple[str, str], dict[str, Any]]:
    chosen = DeploySettings(**{"image": SETTINGS.image, "namespace": "speech", **settings})
    return {
        (one["kind"], one["metadata"]["name"]): one for one in manifests(made or graph(), chosen)
    }


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {
            "tls_secret": "hop",
            "models_claim": "models",
            "surge": False,
            "gateways": 2,
            "deletion_cost": False,
            "node_images": {"llm": "registry.example/motet-gpu:1.0"},
        },
    ],
    ids=["plain", "tls"],
)
def test_every_object_is_valid_and_as_approved(settings: dict[str, Any]) -> None:
    found = objects(**settings)
    for one in found.values():
        validate(one)
    golden = GOLDEN / f"voice-{'tls' if settings else 'plain'}.yaml"
    assert list(yaml.safe_load_all(golden.read_text())) == list(found.values())


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("Deployment", lambda one: one["spec"].update(replica=2)),
        ("Deployment", lambda one: one["spec"]["template"]["spec"].update(containers=None)),
        ("Service", lambda one: one["spec"]["ports"][0].update(port="x")),
        ("ScaledObject", lambda one: one["spec"].update(cooldownPeriods=3)),
        ("ScaledObject", lambda one: one["spec"].update(maxReplicaCount="3")),
        ("PodMonitor", lambda one: one["spec"].update(endpoints=[])),
    ],
)
def test_the_validation_finds_what_is_wrong(kind: str, change: Any) -> None:
    one = next(one for (found, _), one in objects().items() if found == kind)
    change(one)
    with pytest.raises(Exception, match=r".") as caught:
        validate(one)
    assert "Validation" in type(caught.value).__name__


def test_the_pods_get_the_very_pipeline_that_was_given() -> None:
    made = graph()
    text = objects(made)["ConfigMap", "motet-voice-pipeline"]["data"]["pipeline.yaml"]
    assert parse(text).spec == made.spec


def test_an_edited_graph_replaces_the_pods_and_an_unchanged_one_does_not() -> None:
    def digest(made: Graph) -> str:
        pod = objects(made)["Deployment", "motet-voice-asr"]["spec"]["template"]
        return pod["metadata"]["annotations"]["motet.dev/pipeline"]

    assert digest(graph()) == digest(graph())
    assert digest(graph()) != digest(graph(description="Another."))


def test_each_component_scales_by_its_own_settings() -> None:
    found = objects()
    asr = found["ScaledObject", "motet-voice-asr"]["spec"]
    assert (asr["minReplicaCount"], asr["maxReplicaCount"]) == (2, 20)
    behavior = asr["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 600
    metadata = asr["triggers"][0]["metadata"]
    assert metadata["threshold"] == "16"
    assert (
        'motet_node_queued{namespace="speech",pipeline="voice",node="asr",'
        'target="motet-voice-asr.speech.svc:50061"}[10s]' in metadata["query"]
    ), "its own namespace's alone, and its own pods'"
    assert "replicas" not in found["Deployment", "motet-voice-asr"]["spec"], "KEDA sets them"
    assert found["ScaledObject", "motet-voice-llm"]["spec"]["minReplicaCount"] == 0
    assert ("ScaledObject", "motet-voice-tts") not in found
    assert found["Deployment", "motet-voice-tts"]["spec"]["replicas"] == 1


def engaged() -> Graph:
    """A component that says how busy it is."""
    nodes = {"a": {"use": "workerfakes:Engaged", "scale": {"max_replicas": 9}}}
    spec = {"name": "voice", "nodes": nodes, "edges": ["input -> a -> output"]}
    return build(PipelineSpec.model_validate(spec))


def test_one_run_that_has_work_for_many_replicas_brings_them() -> None:
    found = objects(engaged())
    for one in found.values():
        validate(one)
    runs, busy = found["ScaledObject", "motet-voice-a"]["spec"]["triggers"]
    assert "motet_node_active" in runs["metadata"]["query"]
    assert busy["metadata"]["query"].startswith("max(avg_over_time(motet_node_busy{"), (
        "every gateway sees the engines of all"
    )
    assert busy["metadata"]["threshold"] == str(BUSY)


def test_sessions_outlive_a_rollout() -> None:
    found = objects()
    for name in ("asr", "llm", "tts", "gateway"):
        spec = found["Deployment", f"motet-voice-{name}"]["spec"]
        pod = spec["template"]["spec"]
        assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
        command = pod["containers"][0]["command"]
        grace = "--shutdown-grace-s" if name == "gateway" else "--grace-s"
        grace_s = int(command[command.index(grace) + 1])
        assert grace_s >= 3600, "the longest session"
        slept_s = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert pod["terminationGracePeriodSeconds"] > slept_s + grace_s, "the sleep counts"


def test_commands_are_those_of_the_command_line() -> None:
    from motet.streaming.cli import parser

    for (kind, _), one in objects(tls_secret="hop").items():
        if kind == "Deployment":
            command = one["spec"]["template"]["spec"]["containers"][0]["command"]
            assert command[0] == "motet"
            parsed = parser().parse_args(command[1:])
            assert parsed.command


def test_every_node_has_a_target_that_its_service_answers() -> None:
    found = objects()
    command = found["Deployment", "motet-voice-gateway"]["spec"]["template"]["spec"]
    targets = [one for one in command["containers"][0]["command"] if "=" in one]
    assert targets == [
        f"{node}=motet-voice-{node}.speech.svc:50061" for node in ("asr", "llm", "tts")
    ]
    for node in ("asr", "llm", "tts"):
        service = found["Service", f"motet-voice-{node}"]["spec"]
        assert service["clusterIP"] == "None"
        pod = found["Deployment", f"motet-voice-{node}"]["spec"]["template"]
        assert pod["metadata"]["labels"] == service["selector"]


def test_metrics_that_are_asked_for_exist() -> None:
    from motet.streaming.operate.metrics import Metrics

    known = {metric.name for metric in Metrics({}).registry.collect()} | {
        "motet_node_active",
        "motet_node_queued",
        "motet_node_refused",
        "motet_node_replicas",
        "motet_node_busy",
    }
    text = json.dumps([*objects().values(), *objects(engaged()).values()])
    asked = {
        word.removesuffix("_bucket").removesuffix("_total")
        for word in text.replace("{", " ").replace("(", " ").split()
        if word.startswith("motet_")
    }
    assert asked <= known


def test_fractions_of_gpus_are_refused() -> None:
    nodes = {"a": {"use": "fakes:Hear", "resources": {"gpus": 0.5}}}
    made = build(
        PipelineSpec.model_validate(
            {"name": "t", "nodes": nodes, "edges": ["input -> a -> output"]}
        )
    )
    with pytest.raises(SpecError, match=r"nodes\.a\.resources\.gpus: Kubernetes hands out whole"):
        manifests(made, SETTINGS)


def test_names_that_kubernetes_does_not_take_are_refused_all_at_once() -> None:
    long = "x" * 60
    nodes = {name: {"use": "fakes:Hear"} for name in ("gateway", "a_b", "a-b", long)}
    edges = [f"input -> {name} -> output" for name in nodes]
    made = build(PipelineSpec.model_validate({"name": "t", "nodes": nodes, "edges": edges}))
    with pytest.raises(SpecError) as caught:
        manifests(made, DeploySettings("image", node_images={"a_c": "other"}))
    assert [flaw.path for flaw in caught.value.flaws] == [
        "node_images.a_c",
        "nodes.gateway",
        "nodes.a_b",
        "nodes.a-b",
        f"nodes.{long}",
    ]


def test_components_may_tell_what_ending_their_pod_costs_and_gateways_nothing() -> None:
    found = objects()
    pod = found["Deployment", "motet-voice-asr"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is True
    role = found["Role", pod["serviceAccountName"]]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}]
    bound = found["RoleBinding", pod["serviceAccountName"]]
    assert bound["subjects"][0]["name"] == pod["serviceAccountName"]
    (container,) = pod["containers"]
    assert container["command"][-2:] == ["--pod", "$(POD_NAME)"]
    assert {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}} in (
        container["env"]
    )
    policy = found["ValidatingAdmissionPolicy", "speech-motet-voice-node"]["spec"]
    assert pod["serviceAccountName"] in policy["matchConditions"][0]["expression"]
    gateway = found["Deployment", "motet-voice-gateway"]["spec"]["template"]["spec"]
    assert gateway["automountServiceAccountToken"] is False
    without = objects(deletion_cost=False)
    kinds = {kind for kind, _ in without}
    assert not kinds & {"Role", "RoleBinding", "ValidatingAdmissionPolicy"}
    assert "--pod" not in json.dumps(list(without.values()))


def test_a_window_holds_two_readings_at_least() -> None:
    nodes = {"a": {"use": "fakes:Hear", "scale": {"max_replicas": 3, "window_s": 2}}}
    spec = {"name": "voice", "nodes": nodes, "edges": ["input -> a -> output"]}
    made = build(PipelineSpec.model_validate(spec))
    query = objects(made)["ScaledObject", "motet-voice-a"]["spec"]["triggers"][0]["metadata"]
    assert "[10s]" in query["query"], "Prometheus reads every 5 s"


def test_images_of_nodes_are_asked_for_by_name() -> None:
    from motet.components.errors import BadInput
    from motet.streaming.commands.deploy import images

    assert images(["a=b:1", "c=d@sha256:0=0"]) == {"a": "b:1", "c": "d@sha256:0=0"}
    with pytest.raises(BadInput, match="NODE=IMAGE"):
        images(["a"])


def test_the_stream_of_documents_reads_back() -> None:
    found = manifests(graph(), SETTINGS)
    assert list(yaml.safe_load_all(render(found))) == found
