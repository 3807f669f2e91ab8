"""A pipeline whose replicas grow under load on any machine: its engine waits, and costs nothing."""

from __future__ import annotations

from ...pipelines import Graph, build
from ...pipelines.spec import PipelineSpec
from .engines import Answer

WAIT_S = 0.5
TURNS = 8
"""As many show how long one takes, which is always the same."""


def growing() -> Graph:
    """One engine that answers after a wait, as one on a GPU or far away does; a replica takes two
    prompts at once, and there may be six."""
    engine = {
        "use": f"{Answer.__module__}:{Answer.__name__}",
        "options": {"delay_s": WAIT_S, "text": "Done."},
        "scale": {
            "max_replicas": 6,
            "concurrency": 2,
            "window_s": 6.0,
            "scale_down_delay_s": 10.0,
        },
        "resources": {"cpus": 0.1},
    }
    spec = {
        "name": "growing",
        "nodes": {"engine": engine},
        "edges": ["input -> engine -> output"],
    }
    return build(PipelineSpec.model_validate(spec))
