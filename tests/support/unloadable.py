"""A model whose weights aren't there."""

from __future__ import annotations

from motet.components.errors import MissingRequirement
from motet.streaming.bench import engines


class Answer(engines.Answer):
    """Passes every check and doesn't load."""

    async def load(self) -> None:
        raise MissingRequirement("no weights", where=self.setup.node)
