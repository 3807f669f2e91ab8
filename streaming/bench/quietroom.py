"""A caller who says nothing: what the nodes that listen have to do all the time."""

from __future__ import annotations

import asyncio
import itertools

import numpy as np

from ...components.frames import Audio
from ...pipelines.session import Session

RATE_HZ, CHUNK_S = 16_000, 0.02
LOUD = 32768 * 10 ** (-60 / 20)


async def listen(session: Session) -> None:
    """Send a quiet room's noise (-60 dB) at the pace of life, until cancelled."""
    noise = np.random.default_rng(0).normal(0, LOUD, RATE_HZ).astype(np.int16)
    size = round(RATE_HZ * CHUNK_S)
    clock = asyncio.get_running_loop().time
    began_s = clock()
    for number in itertools.count():
        at = number * size % len(noise)
        await session.send(Audio(noise[at : at + size], RATE_HZ, number * CHUNK_S * 1000))
        await asyncio.sleep(began_s + (number + 1) * CHUNK_S - clock())
