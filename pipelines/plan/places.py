"""The places that a simulated graph's replicas have: the runtimes' own pools, on a made clock."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from ...components.errors import MotetError
from ..graph import Graph
from ..pool import TICK_S, Pool, Ticket
from .agenda import Agenda
from .cores import Machines, Room
from .outcome import NodeOutcome

SAMPLES = 8640
"""How often replicas are counted: every 10 s of a day."""


class Places:
    """Hands out places at a graph's nodes, and starts and stops replicas as the policy says.

    `concurrency` is how many runs a replica of each node serves at once, `cold_start_s` how long
    one takes to load. What happens is noted in `outcomes`. `machines` are those of the `room`.
    """

    def __init__(
        self,
        graph: Graph,
        concurrency: Mapping[str, int],
        cold_start_s: Mapping[str, float],
        agenda: Agenda,
        outcomes: Mapping[str, NodeOutcome],
        room: Room,
    ) -> None:
        self.machines = Machines(room)
        self._cpus = room.cpus or {}
        self._pools = {
            name: Pool(
                node.spec.scale,
                node.spec.queue,
                concurrency=concurrency[name],
                where=name,
                preload=node.spec.preload,
            )
            for name, node in graph.nodes.items()
        }
        self._max_wait_s = {name: n.spec.queue.max_wait_s for name, n in graph.nodes.items()}
        self._cold_start_s = cold_start_s
        self._agenda = agenda
        self._outcomes = outcomes
        self._numbers = itertools.count(1)
        self._held: dict[Ticket, Callable[[], None]] = {}
        self._lost: dict[Ticket, Callable[[], None]] = {}

    def open(self, seconds: float) -> None:
        """Start as a runtime does, with the fewest replicas loaded; count them for `seconds`."""
        for name, pool in self._pools.items():
            for _ in range(pool.scale.min_replicas if pool.preload else 0):
                pool.is_ready(self._start(name), 0.0)
        self._tick()
        self._sample(max(TICK_S, seconds / SAMPLES))

    def close(self) -> None:
        """Note what the queues have refused."""
        for name, pool in self._pools.items():
            self._outcomes[name].refused += pool.queue.refused

    def ask(
        self, name: str, session: str, begin: Callable[[Ticket], None], lost: Callable[[], None]
    ) -> None:
        """Ask for a place at a node; `begin` when there is one, `lost` when there never will be
        or its replica goes."""
        pool, ticket, node = self._pools[name], Ticket(session=session), self._outcomes[name]
        node.runs += 1

        def placed() -> None:
            node.waits_s.append(self._agenda.now_s - ticket.asked_s)
            self._lost[ticket] = lost
            begin(ticket)

        try:
            if pool.ask(ticket, self._agenda.now_s):
                placed()
                return
        except MotetError:
            lost()
            return
        self._held[ticket] = placed
        latest_s = self._agenda.now_s + self._max_wait_s[name]
        self._agenda.at(latest_s, lambda: self._give_up(name, ticket, lost))

    def _give_up(self, name: str, ticket: Ticket, lost: Callable[[], None]) -> None:
        if self._held.pop(ticket, None) is not None:
            self._pools[name].give_up(ticket)
            self._outcomes[name].refused += 1
            lost()

    def done(self, name: str, ticket: Ticket) -> None:
        """A run is over; nothing happens to one that went with its replica."""
        if self._lost.pop(ticket, None) is not None:
            self._placed(self._pools[name].done(ticket, self._agenda.now_s))

    def _placed(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            begin = self._held.pop(ticket, None)
            if begin is not None:
                begin()

    def replicas(self) -> dict[str, int]:
        """How many replicas each node has now."""
        return {name: len(pool.replicas) for name, pool in self._pools.items()}

    def kill(self, share: float) -> None:
        """A machine dies now: this share of every node's replicas (at least one) goes with it."""
        for name, pool in self._pools.items():
            alive = [one.id for one in pool.replicas.values()]
            for replica in alive[: max(1, round(share * len(alive)))]:
                self._gone(name, replica)
                gone = [ticket for ticket in self._lost if ticket.replica == replica]
                for ticket in gone:
                    self._outcomes[name].failed += 1
                    lost = self._lost[ticket]
                    self.done(name, ticket)
                    lost()

    def _start(self, name: str) -> str:
        replica = f"{name}-{next(self._numbers)}"
        self._pools[name].starting(replica, self._agenda.now_s)
        self.machines.place(replica, self._cpus.get(name, 0.0))
        return replica

    def _gone(self, name: str, replica: str) -> None:
        self._pools[name].lost(replica, self._agenda.now_s, expected=True)
        self.machines.remove(replica)

    def _tick(self) -> None:
        now_s = self._agenda.now_s
        for name, pool in self._pools.items():
            todo = pool.tick(now_s)
            for replica in todo.stop:
                self._gone(name, replica)
            for _ in range(todo.start):
                replica = self._start(name)
                ready_s = now_s + self._cold_start_s[name]
                self._agenda.at(ready_s, lambda name=name, new=replica: self._ready(name, new))
            self._placed(pool.dispatch(now_s))
        self._agenda.at(now_s + TICK_S, self._tick)

    def _ready(self, name: str, replica: str) -> None:
        if replica in self._pools[name].replicas:
            self._placed(self._pools[name].is_ready(replica, self._agenda.now_s))

    def _sample(self, every_s: float) -> None:
        for name, count in self.replicas().items():
            self._outcomes[name].replicas.append((self._agenda.now_s, count))
        self._agenda.at(self._agenda.now_s + every_s, lambda: self._sample(every_s))
