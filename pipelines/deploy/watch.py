"""What watches a deployed graph: the metrics' monitor, alert rules, and a Grafana dashboard."""

from __future__ import annotations

import json
from typing import Any

from .gateway import PART
from .kubernetes import SCRAPED_S, Naming, Object


def watching(naming: Naming) -> list[Object]:
    """PodMonitor and PrometheusRule of the Prometheus operator, and the dashboard."""
    return [monitor(naming), rules(naming), dashboard(naming)]


def monitor(naming: Naming) -> Object:
    """Prometheus reads the gateways' metrics with a key of its own."""
    credentials = {"name": naming.settings.keys_secret, "key": "metrics-key"}
    endpoint = {
        "port": "http",
        "path": "/metrics",
        "interval": f"{SCRAPED_S}s",
        "authorization": {"type": "Bearer", "credentials": credentials},
    }
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": naming.metadata(PART),
        "spec": {
            "selector": {"matchLabels": naming.labels(PART)},
            "podMetricsEndpoints": [endpoint],
        },
    }


def rules(naming: Naming) -> Object:
    """Alerts on what users feel: refusals, no replica, slow turns, faults."""
    where = naming.where()
    slow = (
        "histogram_quantile(0.95, sum by (le) (rate(motet_stage_seconds_bucket"
        f'{{{where},stage="voice_to_voice"}}[5m])))'
    )
    alerts = [
        ("MotetRefusing", f"sum by (node) (increase(motet_node_refused{{{where}}}[5m])) > 0", "2m"),
        (
            "MotetWithoutReplica",
            f"sum by (node) (motet_node_replicas{{{where}}}) == 0"
            f" and sum by (node) (motet_node_queued{{{where}}}) > 0",
            "2m",
        ),
        ("MotetSlowTurns", f"{slow} > 1.5", "10m"),
        ("MotetFaults", f"sum by (node) (rate(motet_faults_total{{{where}}}[5m])) > 0.1", "5m"),
    ]
    texts = {
        "MotetRefusing": "{{ $labels.node }} refuses runs: its queue is full",
        "MotetWithoutReplica": "runs wait for {{ $labels.node }}, which has no replica",
        "MotetSlowTurns": "from the end of speech to the first sound takes over 1.5 s (p95)",
        "MotetFaults": "{{ $labels.node }} fails",
    }
    group = {
        "name": naming.base,
        "rules": [
            {
                "alert": name,
                "expr": expression,
                "for": lasts,
                "labels": {"severity": "warning"},
                "annotations": {"summary": texts[name]},
            }
            for name, expression, lasts in alerts
        ],
    }
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": naming.metadata("alerts"),
        "spec": {"groups": [group]},
    }


def dashboard(naming: Naming) -> Object:
    """A dashboard as Grafana's sidecar finds it."""
    where = naming.where()
    # Every gateway tells of all replicas, each version of the pipeline by itself.
    each = f"sum by (pod, node) (motet_node_replicas{{{where}}})"
    panels = [
        ("Sessions", f"sum(motet_sessions{{{where}}})", "sessions"),
        ("Replicas", f"max by (node) ({each})", "{{node}}"),
        ("Runs being served", f"sum by (node) (motet_node_active{{{where}}})", "{{node}}"),
        ("Runs waiting", f"sum by (node) (motet_node_queued{{{where}}})", "{{node}}"),
        (
            "Where a turn's time goes (p95)",
            "histogram_quantile(0.95, sum by (le, stage)"
            f" (rate(motet_stage_seconds_bucket{{{where}}}[5m])))",
            "{{stage}}",
        ),
        ("Faults", f"sum by (node, code) (rate(motet_faults_total{{{where}}}[5m]))", "{{node}}"),
    ]
    board: dict[str, Any] = {
        "title": f"Motet: {naming.graph.name}",
        "uid": naming.base[:40],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "panels": [
            {
                "id": number + 1,
                "type": "timeseries",
                "title": title,
                "gridPos": {"x": number % 2 * 12, "y": number // 2 * 8, "w": 12, "h": 8},
                "targets": [{"refId": "A", "expr": expression, "legendFormat": legend}],
            }
            for number, (title, expression, legend) in enumerate(panels)
        ],
    }
    metadata = naming.metadata("dashboard")
    metadata["labels"] = {**metadata["labels"], "grafana_dashboard": "1"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {f"{naming.base}.json": json.dumps(board, indent=1)},
    }
