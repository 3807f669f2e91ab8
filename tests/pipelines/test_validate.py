"""Checks of pipeline files: every fault at once, with its line and what is possible."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.components.errors import Flaw, SpecError
from motet.components.frames import Audio, TextInput
from motet.pipelines import Graph, build, load, parse
from motet.pipelines.spec import PipelineSpec


def flaws(text: str) -> list[Flaw]:
    with pytest.raises(SpecError) as caught:
        parse(dedent(text), file="p.yaml")
    return list(caught.value.flaws)


def test_all_faults_come_at_once_with_their_lines() -> None:
    found = flaws("""\
        name: p
        nodes:
          llm: {use: llm/lama}
          echo: {use: "fakes:Echo"}
          lost: {use: "fakes:Echo"}
          hear:
            use: "fakes:Hear"
            options:
              txt: hi
        edges:
          - input -> echo -> output
          - echo -> hear -> output
          - echo -> ecko
        """)
    said = {(flaw.path, flaw.line): flaw.message for flaw in found}
    assert "did you mean 'llm/llama'?" in said["nodes.llm.use", 3]
    assert "did you mean 'text'?" in said["nodes.hear.options.txt", 9]
    assert "nothing fits: echo emits TextInput" in said["edges[1]", 12]
    assert "did you mean 'echo'?" in said["edges[2]", 13]
    assert "nothing reaches it" in said["nodes.lost", 5]


def test_faults_of_shape_hide_no_other_faults() -> None:
    found = flaws("""\
        name: p
        nodes:
          llm: {use: llm/lama, modle: x}
          echo: {use: "fakes:Echo", scale: {concurrency: four}}
          none:
          bare: {}
          hear: {use: "fakes:Hear", options: {txt: hi}}
        edges:
          - input -> echo -> output
          - [a, b]
          - echo -> ecko
          - input -> bare -> output
        extra: 1
        """)
    said = {(flaw.path, flaw.line): flaw.message for flaw in found}
    assert "did you mean 'model'?" in said["nodes.llm.modle", 3]
    assert "did you mean 'llm/llama'?" in said["nodes.llm.use", 3]
    assert "valid integer" in said["nodes.echo.scale.concurrency", 4]
    assert ("nodes.none", 5) in said
    assert said["nodes.bare.use", 6] == "is missing"
    assert "did you mean 'text'?" in said["nodes.hear.options.txt", 7]
    assert any(line == 10 for _, line in said)
    assert "did you mean 'echo'?" in said["edges[2]", 11]
    assert "unknown key" in said["extra", 13]
    assert not any("reaches" in message for message in said.values()), "an edge isn't known"


@pytest.mark.parametrize(
    ("text", "path", "line", "message"),
    [
        ("name: p\nnods: {}\nedges: []\n", "nods", 2, "did you mean 'nodes'?"),
        ("name: p\nname: q\nnodes: {}\nedges: []\n", "name", 2, "stands twice"),
        (
            "name: p\nnodes:\n  a: {use: 'fakes:Echo'}\n  a: {use: 'fakes:Echo'}\nedges: []\n",
            "nodes.a",
            4,
            "stands twice",
        ),
        ("", "", 1, "name, nodes and edges; got nothing"),
        ("[1, 2]\n", "", 1, "got a list"),
        (
            "name: p\nnodes: {a: {use: 'nosuch:Thing'}}\nedges: []\n",
            "nodes.a.use",
            2,
            "or on PYTHONPATH",
        ),
        ("name: [\n", "", 2, "not YAML"),
        ("name: p\nnodes: {}\nedges: []\n", "nodes", 2, "at least one node"),
        (
            "name: p\nnodes:\n  a: {use: 'fakes:Echo', scale: {max_replica: 2}}\n"
            "edges: [input -> a -> output]\n",
            "nodes.a.scale.max_replica",
            3,
            "did you mean 'max_replicas'?",
        ),
        (
            "name: p\nnodes:\n  a: {use: 'fakes:Echo', scale: {min_replicas: 3}}\n"
            "edges: [input -> a -> output]\n",
            "nodes.a.scale",
            3,
            "above max_replicas",
        ),
        (
            "name: p\nnodes:\n  a: {use: 'fakes:Nothing'}\nedges: [input -> a -> output]\n",
            "nodes.a.use",
            3,
            "can't be imported",
        ),
        (
            "name: p\nnodes:\n  a: {use: 'fakes:Echo'}\nedges:\n  - input -> a\n",
            "nodes.a",
            3,
            "leads nowhere",
        ),
        (
            "name: p\nnodes:\n  a: {use: 'fakes:Echo'}\n  b: {use: 'fakes:Echo'}\n"
            "edges:\n  - input -> a -> b -> a\n  - b -> output\n",
            "edges",
            5,
            "a cycle runs through a, b",
        ),
        (
            "name: p\nnodes:\n  a: {use: 'fakes:Echo'}\n"
            "edges:\n  - input -> a\n  - a -> output: [Audo]\n",
            "edges[1]",
            6,
            "did you mean 'Audio'?",
        ),
        (
            "name: p\nnodes: {a: {use: 'fakes:Echo'}}\n"
            "edges:\n  - input -> a: []\n  - a -> output\n",
            "edges[0]",
            4,
            "carries nothing",
        ),
        (
            "name: p\nnodes: {a: {use: 'fakes:Echo'}}\n"
            "edges:\n  - input -> a\n  - a -> output: {overflow: drop_oldest}\n",
            "edges[1]",
            5,
            "'a -> output' has no capacity or overflow",
        ),
        (
            "name: p\nnodes:\n  a: {use: 'fakes:Echo', resources: {gpus: 1.5}}\n"
            "edges: [input -> a -> output]\n",
            "nodes.a.resources.gpus",
            3,
            "only a part of one can be shared",
        ),
    ],
)
def test_each_fault_names_its_place(text: str, path: str, line: int, message: str) -> None:
    found = flaws(text)
    assert any(f.path == path and f.line == line and message in f.message for f in found), found


def test_an_edge_carries_what_fits_and_what_it_is_told() -> None:
    graph = parse(
        dedent("""\
        name: p
        nodes:
          hear: {use: "fakes:Hear"}
        edges:
          - input -> hear
          - hear -> output: {carries: [Transcript]}
        """)
    )
    assert graph.entries(Audio) == ("hear",)
    assert graph.entries(TextInput) == ()
    assert [kind.__name__ for kind in graph.edges[1].carries] == ["Transcript"]


def test_ready_made_voice_pipeline_is_sound() -> None:
    graph = load("voice")
    assert graph.order == ("vad", "llm", "turn", "tts", "asr")
    assert graph.spec.conversation is not None


def test_edges_into_one_node_agree_on_its_queue() -> None:
    text = """\
        name: p
        nodes:
          a: {use: "fakes:Echo"}
          b: {use: "fakes:Echo"}
        edges:
          - input -> a -> output
          - a -> b: {overflow: drop_oldest}
          - input -> b -> output
        """
    assert [(flaw.path, flaw.message) for flaw in flaws(text)] == [
        (
            "nodes.b",
            "the edges into it share one queue, but say 64 frames, block and 64 frames,"
            " drop_oldest",
        )
    ]


def test_a_part_that_contains_itself_is_refused() -> None:
    (found,) = flaws("name: p\nnodes: &all\n  a: *all\nedges: [input -> a]\n")
    assert (found.path, found.message) == ("nodes.a", "contains itself")


def test_a_folder_of_the_name_hides_no_ready_made_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "voice").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load("voice").name == "voice"


def test_a_missing_file_says_so() -> None:
    with pytest.raises(SpecError, match=r"there is no such file$"):
        load("nowhere/at/all.yaml")
    with pytest.raises(SpecError, match=r"nor a ready-made pipeline.*did you mean 'voice'"):
        load("vocie")


def test_a_fault_is_told_once_however_many_ways_lead_to_it() -> None:
    text = "name: p\nnodes: {a: {use: 'fakes:Echo'}}\nedges: [input -> a -> b -> output]\n"
    said = [flaw.message for flaw in flaws(text)]
    assert len(said) == len(set(said))
    assert any("'b' is unknown" in one for one in said)


@st.composite
def specs(draw: st.DrawFn) -> PipelineSpec:
    count = draw(st.integers(1, 6))
    names = [f"n{index}" for index in range(count)]
    ends = st.sampled_from([*names, "input", "output", "conversation", "ghost"])
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=12))
    uses = st.sampled_from(["fakes:Echo", "fakes:Hear", "fakes:Say"])
    return PipelineSpec.model_validate(
        {
            "name": "p",
            "nodes": {name: {"use": draw(uses)} for name in names},
            "edges": [f"{a} -> {b}" for a, b in pairs],
        }
    )


@given(specs())
def test_a_graph_that_passes_is_sound(spec: PipelineSpec) -> None:
    """Random graphs are refused, or acyclic, reached from the start and useful at the end."""
    try:
        graph = build(spec)
    except SpecError:
        return
    assert isinstance(graph, Graph)
    assert sorted(graph.order) == sorted(spec.nodes)
    place = {name: index for index, name in enumerate(graph.order)}
    for edge in graph.edges:
        assert edge.carries
        if edge.source in place and edge.target in place:
            assert place[edge.source] < place[edge.target]
    assert all(graph.producers[name] for name in graph.nodes)
