"""`motet transcribe`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..targets import SUFFIXES
from .output import Commands


def add(commands: Commands) -> None:
    """`motet transcribe`."""
    command = commands.add_parser("transcribe", help="audio and video files to text, here")
    command.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="audio or video, in any usual format"
    )
    command.add_argument(
        "--format", choices=list(SUFFIXES), default="text", help="of the results (text)"
    )
    command.add_argument("--out", type=Path, help="folder of the results (beside each file)")
    command.add_argument("--stdout", action="store_true", help="print results instead")
    command.add_argument("--pipeline", default="transcribe", help="pipeline file")
    command.add_argument("--language", help="ISO 639-1; found if not given")
    command.add_argument("--translate", action="store_true", help="into English")
    command.add_argument(
        "--speakers", action="store_true", help="tell voices apart, as the next two do"
    )
    command.add_argument("--min-speakers", type=int, help="there are at least so many")
    command.add_argument("--max-speakers", type=int, help="there are at most so many")
    command.add_argument(
        "--channels",
        choices=["mix", "separate"],
        default="mix",
        help="separate: each channel is a speaker (mix)",
    )
    command.add_argument("--prompt", help="text that biases spelling")
    command.add_argument("--hotword", action="append", default=[], help="may be repeated")
    command.add_argument(
        "--beam-size", type=int, help="of the search; larger is slower (the pipeline's)"
    )
    command.add_argument("--at-once", type=int, default=2, help="files at once (2)")
    command.add_argument("--force", action="store_true", help="also what has a result already")
    command.set_defaults(command=run_transcribe)


def run_transcribe(parsed: argparse.Namespace) -> int:
    """Transcribe files on this machine."""
    from ..transcribe import run

    return run(parsed)
