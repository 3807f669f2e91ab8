"""Which replica serves a run: the one with the most room, or one that knows it already."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import takewhile

from ..components.frames import Frame, Prompt
from .scaling import Replica

Pick = Callable[[Sequence[Replica]], Replica]

REMEMBERED = 10_000
"""Sessions and prefixes whose replica is known; beyond that the oldest are forgotten."""


def least_sessions(replicas: Sequence[Replica]) -> Replica:
    """The replica with the fewest sessions; for a head that knows every one of them."""
    return min(replicas, key=lambda one: (one.load, one.id))


def power_of_two(random: Callable[[], float]) -> Pick:
    """The less loaded of two chosen at random (Mitzenmacher 2001).

    For several heads that each know the loads late: they don't all run to the same replica.
    """

    def pick(replicas: Sequence[Replica]) -> Replica:
        first = int(random() * len(replicas))
        second = (first + 1 + int(random() * (len(replicas) - 1))) % len(replicas)
        return least_sessions((replicas[first], replicas[second]))

    return pick


class Router:
    """Chooses replicas and remembers who served what.

    A session goes back to its replica while that has room; a prompt goes where its beginning was
    served before, or else its adapter (LoRA), unless that replica has more than a quarter of its
    places busier than the least.
    """

    def __init__(self, concurrency: int, *, pick: Pick = least_sessions) -> None:
        self._concurrency = concurrency
        self._pick = pick
        self._homes: OrderedDict[str, str] = OrderedDict()

    def choose(
        self, replicas: Sequence[Replica], *, session: str = "", prefix: str = ""
    ) -> Replica | None:
        """A ready replica with a free place, a silent one last; None when all are full."""
        free = [one for one in replicas if one.state == "ready" and one.load < self._concurrency]
        if not free:
            return None
        free = [one for one in free if not one.silent] or free
        adapter = prefix.rpartition("/")[0]
        chosen = self._home(free, f"session {session}") if session else None
        chosen = chosen or self._near(free, "prefix", prefix)
        chosen = chosen or self._near(free, "adapter", adapter) or self._pick(free)
        for name, value in (("session", session), ("prefix", prefix), ("adapter", adapter)):
            if value:
                self._settle(f"{name} {value}", chosen.id)
        return chosen

    def _near(self, free: Sequence[Replica], kind: str, value: str) -> Replica | None:
        home = self._home(free, f"{kind} {value}") if value else None
        if home is None:
            return None
        least = min(one.load for one in free)
        return home if home.load - least <= self._concurrency // 4 else None

    def _home(self, free: Sequence[Replica], name: str) -> Replica | None:
        home = self._homes.get(name)
        return next((one for one in free if one.id == home), None)

    def _settle(self, name: str, replica: str) -> None:
        self._homes[name] = replica
        self._homes.move_to_end(name)
        while len(self._homes) > REMEMBERED:
            self._homes.popitem(last=False)


def prefix_of(frame: Frame) -> str:
    """What a prompt shares with others of its kind: its adapter, where it names one, and a hash of
    its system messages and tools, where it has some ("adapter/hash")."""
    if not isinstance(frame, Prompt):
        return ""
    system = takewhile(lambda message: message.role == "system", frame.messages)
    said = [*(message.text for message in system), *(tool.name for tool in frame.tools)]
    text = "\0".join(said).encode("utf-8", "surrogatepass")
    shared = hashlib.blake2b(text, digest_size=8).hexdigest() if said else ""
    return f"{frame.adapter}/{shared}" if frame.adapter else shared
