"""Faults of shape are told in the words of a pipeline file, each once."""

from __future__ import annotations

from textwrap import dedent

import pytest

from motet.components.errors import SpecError
from motet.pipelines import parse


def said(text: str) -> dict[str, str]:
    with pytest.raises(SpecError) as found:
        parse(dedent(text), file="p.yaml")
    told = [(flaw.path, flaw.message) for flaw in found.value.flaws]
    assert len(dict(told)) == len(told), "a place has one fault"
    return dict(told)


def test_where_several_types_are_possible_only_the_meant_one_is_told_of() -> None:
    faults = said("""\
        name: p
        nodes: {hear: {use: "fakes:Hear"}}
        edges:
          - input -> hear: {capacty: 3}
          - input -> hear: {capacity: 0}
          - input -> hear: Audio
          - hear -> output: [3]
          - 3
        """)
    assert faults == {
        "edges[0].input -> hear.capacty": "unknown key; did you mean 'capacity'?",
        "edges[1].input -> hear.capacity": "Input should be greater than or equal to 1, got 0",
        "edges[2].input -> hear": "Input should be a valid list or a valid mapping, got 'Audio'",
        "edges[3].hear -> output[0]": "Input should be a valid string, got 3",
        "edges[4]": "Input should be a valid string or a valid mapping, got 3",
    }


def test_an_option_that_stands_in_the_node_is_told_where_it_belongs() -> None:
    faults = said("""\
        name: p
        nodes: {hear: {use: "fakes:Hear", text: hi, speed: 3}}
        edges: [input -> hear -> output]
        """)
    assert faults["nodes.hear.text"] == "is an option: write `options: {text: …}`"
    assert faults["nodes.hear.speed"].startswith("unknown key; ")
