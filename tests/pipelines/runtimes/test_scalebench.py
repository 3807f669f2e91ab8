"""The plot of components that scale apart: what is loaded grows, the rest stays."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from motet.components.errors import BadInput
from motet.pipelines import build
from motet.pipelines.runtimes.scalebench import Sample, ScaleResult, measure, scalable, svg, work
from motet.pipelines.spec import PipelineSpec


def graph(use: str = "fakes:Answer", **options: object) -> object:
    nodes = {
        "llm": {"use": use, "options": options},
        "tts": {"use": "fakes:Say"},
    }
    edges = ["input -> llm -> tts -> output"]
    return build(PipelineSpec.model_validate({"name": "t", "nodes": nodes, "edges": edges}))


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_a_load_on_one_component_grows_that_one_alone() -> None:
    made = scalable(graph(delay_s=0.3), 3)  # type: ignore[arg-type]
    result = await measure(made, "llm", runs=6, seconds=10.0)
    assert (result.most("llm"), result.most("tts")) == (3, 1)
    assert result.failed == 0
    assert result.samples[-1].replicas == {"llm": 1, "tts": 1}, "and shrank again"


def test_the_plot_has_a_line_for_every_node() -> None:
    samples = [Sample(0.0, 0, {"a": 1, "b": 1}), Sample(5.0, 4, {"a": 3, "b": 1})]
    root = ET.fromstring(svg(ScaleResult("a", "workers", samples)))
    lines = [one for one in root if one.tag.endswith("polyline")]
    assert len(lines) == 2
    heights = [{point.split(",")[1] for point in one.attrib["points"].split()} for one in lines]
    assert len(heights[0]) == 2
    assert len(heights[1]) == 1


def test_a_node_must_be_one_that_can_be_given_work() -> None:
    made = graph()
    assert len(work(made.nodes["llm"])) == 1  # type: ignore[attr-defined]
    with pytest.raises(BadInput, match="takes neither audio nor a prompt nor a text"):
        work(replace(made.nodes["llm"], accepts=()))  # type: ignore[attr-defined]
