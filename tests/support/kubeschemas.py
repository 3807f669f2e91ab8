"""Validation of Kubernetes objects, custom kinds too, by schemas that know no other field."""

from __future__ import annotations

import functools
import importlib.resources
import json
from typing import Any

import pytest

VERSIONS = ("1.30", "1.33", "1.37")


def closed(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


STRING, WHOLE = {"type": "string"}, {"type": "integer", "minimum": 0}
LABELS = {"type": "object", "additionalProperties": STRING}
METADATA = closed(["name", "namespace", "labels"], name=STRING, namespace=STRING, labels=LABELS)
SCALED_OBJECT = closed(
    scaleTargetRef=closed(name=STRING),
    minReplicaCount=WHOLE,
    maxReplicaCount=WHOLE,
    pollingInterval=WHOLE,
    cooldownPeriod=WHOLE,
    fallback=closed(
        failureThreshold=WHOLE,
        replicas=WHOLE,
        behavior={
            "enum": [
                "static",
                "currentReplicas",
                "currentReplicasIfHigher",
                "currentReplicasIfLower",
            ]
        },
    ),
    advanced=closed(
        horizontalPodAutoscalerConfig=closed(
            behavior=closed(
                scaleUp=closed(stabilizationWindowSeconds={**WHOLE, "maximum": 3600}),
                scaleDown=closed(
                    stabilizationWindowSeconds={**WHOLE, "maximum": 3600},
                    policies={
                        "type": "array",
                        "items": closed(
                            type={"enum": ["Pods", "Percent"]},
                            value={**WHOLE, "minimum": 1},
                            periodSeconds={**WHOLE, "minimum": 1, "maximum": 1800},
                        ),
                    },
                ),
            )
        )
    ),
    triggers={
        "type": "array",
        "items": closed(
            type={"const": "prometheus"},
            metricType={"enum": ["AverageValue", "Value"]},
            # Every entry of a trigger's metadata is a string, numbers and booleans too.
            metadata=closed(
                serverAddress={"type": "string", "pattern": "^https?://"},
                query=STRING,
                threshold={"type": "string", "pattern": r"^\d+(\.\d+)?$"},
                activationThreshold={"type": "string", "pattern": r"^\d+(\.\d+)?$"},
                ignoreNullValues={"enum": ["true", "false"]},
            ),
        ),
    },
)
POD_MONITOR = closed(
    selector=closed(matchLabels=LABELS),
    podMetricsEndpoints={
        "type": "array",
        "items": closed(
            port=STRING,
            path=STRING,
            interval={"type": "string", "pattern": r"^\d+(ms|s|m|h)$"},
            authorization=closed(type=STRING, credentials=closed(name=STRING, key=STRING)),
        ),
    },
)
RULE = closed(
    groups={
        "type": "array",
        "items": closed(
            name=STRING,
            rules={
                "type": "array",
                "items": closed(
                    alert=STRING,
                    expr=STRING,
                    **{"for": {"type": "string", "pattern": r"^\d+(ms|s|m|h)$"}},
                    labels=LABELS,
                    annotations=LABELS,
                ),
            },
        ),
    }
)
CUSTOM = {
    ("keda.sh/v1alpha1", "ScaledObject"): SCALED_OBJECT,
    ("monitoring.coreos.com/v1", "PodMonitor"): POD_MONITOR,
    ("monitoring.coreos.com/v1", "PrometheusRule"): RULE,
}


def validate(one: dict[str, Any]) -> None:
    """Against the schema of its kind, with nothing in it that the schema doesn't know."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    import jsonschema

    kind = (one["apiVersion"], one["kind"])
    if kind in CUSTOM:
        schema = closed(apiVersion=STRING, kind=STRING, metadata=METADATA, spec=CUSTOM[kind])
        jsonschema.Draft202012Validator(schema).validate(one)
        return
    with pytest.MonkeyPatch.context() as patch:
        # It would parse megabytes of schemas anew for every object.
        patch.setattr(kubernetes_validate.utils, "schema_contents", schema_contents)
        for version in VERSIONS:
            kubernetes_validate.validate(one, version, strict=True)


@functools.cache
def schema_contents(filename: str, version: str) -> Any:
    folder = importlib.resources.files("kubernetes_validate")
    return json.loads(folder.joinpath(filename).read_text())
