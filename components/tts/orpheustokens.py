"""Orpheus' tokens: the text of a speech model to the codes of SNAC, frame by frame.

Each code is written as `<custom_token_N>` with N = 10 + 4096 · place + code, `place` 0 to 6 within
the frame (canopyai/Orpheus-TTS, decoder.py). Smaller N are marks of the model's own. Code 0 is a
code like any other.
"""

from __future__ import annotations

import re

CODES = 7
CODEBOOK = 4096
FIRST = 10
TOKEN = re.compile(r"<custom_token_(\d{1,6})>")
LONGEST = len("<custom_token_999999>")


class OrpheusTokens:
    """Takes the text as it streams, whatever cuts it; gives whole frames of 7 codes.

    A frame whose codes don't come in their places is dropped and counted in `broken`: the next
    code of place 0 begins a new one, so that a slip of the model costs one frame, not the rest.
    """

    def __init__(self) -> None:
        self._text = ""
        self._frame: list[int] = []
        self.broken = 0

    def push(self, text: str) -> list[list[int]]:
        """Take a piece of text; the frames that it completes."""
        self._text += text
        frames: list[list[int]] = []
        end = 0
        for match in TOKEN.finditer(self._text):
            end = match.end()
            number = int(match[1]) - FIRST
            if 0 <= number < CODES * CODEBOOK:
                frames += self._take(*divmod(number, CODEBOOK))
        self._text = self._text[end:][-LONGEST:]
        return frames

    def _take(self, place: int, code: int) -> list[list[int]]:
        if place != len(self._frame):
            if self._frame:
                self.broken += 1
            self._frame = []
            if place != 0:
                return []
        self._frame.append(code)
        if len(self._frame) < CODES:
            return []
        frame, self._frame = self._frame, []
        return [frame]
