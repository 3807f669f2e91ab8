"""ONNX models on a CPU, under the house's rules for threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import onnxruntime as ort  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray


class OnnxModel:
    """One session for every caller; `run` blocks and may be called from several threads.

    It starts `threads` threads, which sleep while there is no work, and only logs errors.
    `source` is a file or the bytes of one.
    """

    def __init__(self, source: Path | bytes, *, threads: int = 1) -> None:
        self._session = sleeping(source, threads)

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> Sequence[NDArray[Any]]:
        """All outputs of the model, in its own order."""
        return cast("Sequence[NDArray[Any]]", self._session.run(None, feeds))


def sleeping(source: Path | bytes, threads: int) -> Any:
    """An onnxruntime session whose threads sleep while there is no work."""
    options = cast(Any, ort.SessionOptions())  # pyright: ignore[reportUnknownMemberType]
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return cast(
        Any,
        ort.InferenceSession(
            source if isinstance(source, bytes) else str(source),
            options,
            providers=["CPUExecutionProvider"],
        ),
    )
