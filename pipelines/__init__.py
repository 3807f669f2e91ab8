"""The graph of a pipeline: its file, its checks, its sessions and the runtimes that carry it."""

from .graph import Graph
from .pipeline import Pipeline
from .session import Session
from .spec import PipelineSpec
from .validate import build, load, parse

__all__ = ["Graph", "Pipeline", "PipelineSpec", "Session", "build", "load", "parse"]
