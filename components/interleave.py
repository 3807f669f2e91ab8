"""Text and pictures of a message, in the order in which a model reads them."""

from __future__ import annotations

from collections.abc import Iterator

from .frames import ImagePart, Message


def pieces(message: Message) -> Iterator[str | ImagePart]:
    """The message's text cut where its pictures stand; a frame of a clip comes behind its time."""
    place = 0
    text = message.text
    for image in sorted(message.images, key=lambda one: len(text) if one.at is None else one.at):
        at = len(text) if image.at is None else min(image.at, len(text))
        if at > place:
            yield text[place:at]
            place = at
        if image.clip:
            yield f"[{clock(image.time_s)}]"
        yield image
    if place < len(text):
        yield text[place:]


def clock(seconds: float) -> str:
    """A place in a clip as minutes and seconds."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
