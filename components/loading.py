"""transformers while it loads: without its bars and its reports of what was left out on purpose."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from transformers.utils import logging


@contextmanager
def quiet_loading() -> Generator[None]:
    """Errors only while this lasts; faults in loading are exceptions all the same."""
    speaking: Any = logging
    before = speaking.get_verbosity()
    bars = speaking.is_progress_bar_enabled()
    speaking.set_verbosity_error()
    speaking.disable_progress_bar()
    try:
        yield
    finally:
        speaking.set_verbosity(before)
        if bars:
            speaking.enable_progress_bar()
