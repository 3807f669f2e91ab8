"""Kubernetes objects as the YAML that people read and `kubectl` applies."""

from __future__ import annotations

from typing import Any, cast

import yaml

from .kubernetes import Object


def render(objects: list[Object]) -> str:
    """The objects as one YAML stream for `kubectl apply -f -`."""
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=100)


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as people write them, and everything where it belongs."""

    def ignore_aliases(self, data: Any) -> bool:
        """No anchors: what is the same in two places is written twice."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return cast("Any", dumper).represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
