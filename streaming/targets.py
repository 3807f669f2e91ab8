"""Where results of files are written: talk.srt for talk.wav, and never two into one file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..components.errors import BadInput

SUFFIXES = {
    "json": ".json",
    "verbose_json": ".json",
    "diarized_json": ".json",
    "text": ".txt",
    "srt": ".srt",
    "vtt": ".vtt",
}


def targets(files: Sequence[Path], format: str, folder: Path | None) -> dict[Path, Path]:
    """The place of each file's result: beside it, or in `folder`. Files that differ in their
    suffix alone keep it: a.wav.srt and a.mp4.srt.

    Raises:
        BadInput: two would still be written to one place.
    """
    suffix = SUFFIXES[format]
    plain = {file: (folder or file.parent) / f"{file.stem}{suffix}" for file in files}
    taken = Counter(plain.values())
    places = {
        file: place if taken[place] == 1 else place.with_name(f"{file.name}{suffix}")
        for file, place in plain.items()
    }
    owners: dict[Path, Path] = {}
    for file, place in places.items():
        if (other := owners.setdefault(place, file)) != file:
            raise BadInput(
                f"{str(other)!r} and {str(file)!r} would both become {str(place)!r};"
                " leave out the folder, or take them apart"
            )
    return places


def write_whole(target: Path, body: str | bytes) -> None:
    """Write a file in one step, with the folders on its way. Blocks."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.new")
    fresh.write_bytes(body.encode() if isinstance(body, str) else body)
    fresh.replace(target)
