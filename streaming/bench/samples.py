"""What is sent to a pipeline that is measured: a sample of ours, or the lines of a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...components.errors import BadInput
from ...components.frames import Frame, Generate, Message, Prompt, TextDelta, TextInput
from ...pipelines import Graph

TEXTS: dict[type[Frame], tuple[str, ...]] = {
    Prompt: (
        "Tell me something about the weather, in one sentence.",
        "What is the capital of France?",
        "How do I boil an egg?",
        "Why is the sky blue?",
    ),
    Generate: ("a small red house",),
    TextInput: ("A sentence that is to be embedded.",),
    TextDelta: (
        "This is a sentence that is to be spoken.",
        "Yes, of course.",
        "The next train leaves at a quarter past nine, from the platform on the other side.",
        "Good morning! Your table is ready, and the others are waiting for you in the garden.",
    ),
}
"""Ours, by the frame that is made of them; the first that a pipeline takes is sent."""

MAKERS: dict[type[Frame], Callable[[str], Frame]] = {
    Generate: Generate,
    TextInput: TextInput,
    TextDelta: TextDelta,
}

HELP = (
    "Each turn is one frame, of the first sort that the pipeline takes: "
    + "; ".join(f"{kind.__name__} ({', '.join(map(repr, texts))})" for kind, texts in TEXTS.items())
    + ", in turns. With --inputs the lines of a file are sent instead. Prompts have the "
    "instructions and the temperature of the pipeline's conversation. Pipelines that take none of "
    "these can't be measured; one that listens hears a quiet room meanwhile."
)


def samples_of(graph: Graph, lines: Path | None = None) -> list[Frame]:
    """What to send to a graph: ours, or the lines of a text file.

    Raises:
        BadInput: it takes no text, or the file has none or can't be read.
    """
    for kind, texts in TEXTS.items():
        if graph.entries(kind):
            return [_frame(graph, kind, text) for text in (_lines(lines) if lines else texts)]
    kinds = ", ".join(kind.__name__ for kind in TEXTS)
    raise BadInput(f"{graph.name!r} takes none of {kinds}", where="profile")


def _frame(graph: Graph, kind: type[Frame], text: str) -> Frame:
    if kind in MAKERS:
        return MAKERS[kind](text)
    said, talk = Message("user", text), graph.spec.conversation
    if talk is None:
        return Prompt((said,))
    return Prompt(
        (Message("system", talk.instructions), said),
        max_tokens=talk.max_answer_tokens,
        temperature=talk.temperature,
    )


def _lines(path: Path) -> list[str]:
    try:
        found = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"can't be read: {error}", where=str(path)) from error
    if not any(found):
        raise BadInput("has no text; each line is the text of a turn", where=str(path))
    return [line for line in found if line]
