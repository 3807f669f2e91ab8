"""Audio on the wire by a shorter way than other frames: it is most of what travels.

The messages are the ones that the general codec writes and reads, byte for byte; what isn't a small
chunk of plain samples is left to it.
"""

from __future__ import annotations

import numpy as np

from ..frames import Audio
from . import motet_pb2 as pb

_INT16 = np.dtype("<i2")


def put(frame: Audio, out: pb.Frame, *, most_bytes: int) -> bool:
    """Write a chunk of at most `most_bytes`; False, and nothing is written, where it's no such."""
    pcm = frame.pcm
    if pcm.dtype != _INT16 or pcm.ndim != 1 or pcm.nbytes > most_bytes:
        return False
    data = pcm.tobytes()
    message = out.audio
    tensor = message.pcm
    tensor.dtype = "<i2"
    tensor.shape.append(len(pcm))
    blob = tensor.data
    blob.length = len(data)
    blob.inline = data
    message.rate_hz = frame.rate_hz
    message.start_ms = frame.start_ms
    if frame.speech is not None:
        message.speech = frame.speech
    return True


def take(message: pb.Audio) -> Audio | None:
    """Read a chunk as a view of the bytes received; None where it's no plain one."""
    tensor = message.pcm
    data = tensor.data.inline
    if tensor.dtype != "<i2" or not data or tensor.shape[:] != [len(data) // 2] or len(data) % 2:
        return None
    speech = message.speech if message.HasField("speech") else None
    return Audio(np.frombuffer(data, _INT16), message.rate_hz, message.start_ms, speech)
