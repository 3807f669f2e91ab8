"""What is measured, named once: Prometheus metrics of sessions, turns, stages and queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...pipelines.pipeline import Pipeline
from ...pipelines.runtimes.base import NodeStatus
from ...pipelines.version import Version
from ...pipelines.versions import Versions

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 30, 60)
STAGES = ("vad", "end_of_turn", "asr", "llm_first_token", "tts_first_audio", "voice_to_voice")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one server, in a registry of its own."""

    def __init__(self, pipelines: Mapping[str, Pipeline]) -> None:
        self.registry = CollectorRegistry()
        self.sessions = Gauge(
            "motet_sessions", "Open sessions", ["pipeline", "door"], registry=self.registry
        )
        self.refused = Counter(
            "motet_refused",
            "Sessions and requests refused",
            ["door", "reason"],
            registry=self.registry,
        )
        self.turns = Counter(
            "motet_turns",
            "Turns by how they ended",
            ["pipeline", "outcome"],
            registry=self.registry,
        )
        self.stages = Histogram(
            "motet_stage_seconds",
            "Where the time of a turn goes",
            ["pipeline", "stage"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.faults = Counter(
            "motet_faults",
            "Faults of components",
            ["pipeline", "node", "code"],
            registry=self.registry,
        )
        self.bytes = Counter(
            "motet_bytes", "Bytes at the doors", ["door", "direction"], registry=self.registry
        )
        self.deliveries = Counter(
            "motet_webhook_attempts",
            "Attempts to deliver webhooks by what became of them",
            ["outcome"],
            registry=self.registry,
        )
        self.requests = Histogram(
            "motet_request_seconds",
            "Requests by route and status",
            ["route", "status"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.registry.register(NodeCollector(pipelines))
        self.registry.register(VersionCollector(pipelines))

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)


class NodeCollector(Collector):
    """Reads each node's load from its runtime when Prometheus asks."""

    def __init__(self, pipelines: Mapping[str, Pipeline]) -> None:
        self._pipelines = pipelines

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead of time: the labels follow the graphs."""
        return []

    def collect(self) -> Iterable[Metric]:
        """One gauge per reading, labelled by pipeline, node, the version that it came with, and its
        target."""
        labels = ["pipeline", "node", "version", "target"]
        gauges = {
            "active": GaugeMetricFamily("motet_node_active", "Runs being served", labels=labels),
            "queued": GaugeMetricFamily("motet_node_queued", "Runs waiting", labels=labels),
            "refused": GaugeMetricFamily("motet_node_refused", "Runs refused", labels=labels),
            "replicas": GaugeMetricFamily("motet_node_replicas", "Replicas ready", labels=labels),
            "busy": GaugeMetricFamily(
                "motet_node_busy", "Replicas' worth of work, where engines tell", labels=labels
            ),
        }
        for name, pipeline in self._pipelines.items():
            for _, nodes in own_nodes(pipeline.versions):
                for node in nodes:
                    where = [name, node.node, node.version, node.target]
                    gauges["active"].add_metric(where, node.active)
                    gauges["queued"].add_metric(where, node.queued)
                    gauges["refused"].add_metric(where, node.refused)
                    ready = sum(replica.state == "ready" for replica in node.replicas)
                    gauges["replicas"].add_metric(where, ready)
                    gauges["busy"].add_metric(where, ready * (node.utilisation or 0.0))
        return gauges.values()


class VersionCollector(Collector):
    """Reads the versions of each pipeline when Prometheus asks."""

    def __init__(self, pipelines: Mapping[str, Pipeline]) -> None:
        self._pipelines = pipelines

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead of time: versions come and go."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Sessions, shares and outcomes, labelled by pipeline and version."""
        labels = ["pipeline", "version"]
        sessions = GaugeMetricFamily(
            "motet_version_sessions", "Open sessions of a version", labels=[*labels, "role"]
        )
        share = GaugeMetricFamily(
            "motet_version_share", "Its part of new sessions", labels=[*labels, "role"]
        )
        runs = CounterMetricFamily(
            "motet_version_runs", "Requests and turns that have ended", labels=[*labels, "outcome"]
        )
        for name, pipeline in self._pipelines.items():
            for version in pipeline.versions.all:
                where = [name, version.id]
                sessions.add_metric([*where, version.role], len(version.sessions))
                share.add_metric([*where, version.role], pipeline.versions.share(version))
                runs.add_metric([*where, "fault"], version.faults)
                runs.add_metric([*where, "ok"], version.runs - version.faults)
        return [sessions, share, runs]


def own_nodes(versions: Versions) -> Iterable[tuple[Version, list[NodeStatus]]]:
    """Each version with the nodes that no version before it has: what they share comes once."""
    seen: set[tuple[str, str]] = set()
    for version in versions.all:
        nodes = [n for n in version.runtime.status() if (n.node, n.version) not in seen]
        seen |= {(node.node, node.version) for node in nodes}
        yield version, nodes
