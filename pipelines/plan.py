"""A day of a graph, simulated: the runtimes' own pools, queues and policy, on a made clock."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..components.errors import BadInput, MotetError
from .graph import CONVERSATION, Graph
from .planinputs import Arrival, Habits
from .planoutcome import NodeOutcome, Outcome
from .pool import TICK_S, Pool, Ticket
from .profile import NodeProfile, Profile, Run

SAMPLES = 8640
"""How often replicas are counted: every 10 s of a day."""


@dataclass(slots=True, eq=False)
class _Turn:
    """A turn on its way through the nodes; `left` are those that it hasn't reached."""

    session: _Session
    began_s: float
    left: list[str]
    alive: bool = True


@dataclass(slots=True, eq=False)
class _Session:
    name: str
    ends_s: float
    standing: dict[str, Ticket] = field(default_factory=dict[str, Ticket])
    failed: bool = False


class Simulation:
    """Runs arrivals through a graph. Nodes before `conversation` hold a place for a whole session;
    the others hold one for a turn, each starting when the one before it has its first output.

    `concurrency` of a node is how many runs a replica serves at once.
    """

    def __init__(
        self,
        graph: Graph,
        profile: Profile,
        concurrency: dict[str, int],
        *,
        habits: Habits | None = None,
        seed: int = 0,
    ) -> None:
        self.habits = habits or Habits()
        self.standing, self.path = split(graph)
        lacking = [name for name in self.path if not profile.nodes.get(name, NodeProfile()).runs]
        if lacking:
            raise BadInput(f"the profile has no runs of {', '.join(lacking)}", where="profile")
        self._profiles = {name: profile.nodes.get(name, NodeProfile()) for name in graph.nodes}
        self._runs = {name: by_active(self._profiles[name].runs) for name in self.path}
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
        self._rng = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._numbers = itertools.count(1)
        self._held: dict[Ticket, Callable[[], None]] = {}
        self._lost: dict[Ticket, Callable[[], None]] = {}
        self._sample_s = TICK_S
        self.now_s = 0.0
        self.outcome = Outcome({name: NodeOutcome() for name in graph.nodes})

    def at(self, at_s: float, what: Callable[[], None]) -> None:
        """Do something at a time of the simulation."""
        heapq.heappush(self._events, (at_s, next(self._order), what))

    def run(self, arrivals: Iterable[Arrival], seconds: float) -> Outcome:
        """Simulate until `seconds`; starts as a runtime does, with the fewest replicas loaded."""
        for name, pool in self._pools.items():
            for _ in range(pool.scale.min_replicas if pool.preload else 0):
                pool.is_ready(self._start(name), 0.0)
        for arrival in arrivals:
            self.at(arrival.at_s, lambda arrival=arrival: self._arrive(arrival))
        self._sample_s = max(TICK_S, seconds / SAMPLES)
        self.at(0.0, self._tick)
        self.at(0.0, self._sample)
        while self._events and self._events[0][0] <= seconds:
            self.now_s, _, what = heapq.heappop(self._events)
            what()
        self.outcome.seconds = seconds
        for name, pool in self._pools.items():
            self.outcome.nodes[name].refused += pool.queue.refused
        return self.outcome

    def kill(self, share: float) -> None:
        """A machine dies now: this share of every node's replicas (at least one) goes with it."""
        for name, pool in self._pools.items():
            alive = [one.id for one in pool.replicas.values()]
            for replica in alive[: max(1, round(share * len(alive)))]:
                pool.lost(replica, self.now_s, expected=True)
                gone = [ticket for ticket in self._lost if ticket.replica == replica]
                for ticket in gone:
                    self.outcome.nodes[name].failed += 1
                    lost = self._lost[ticket]
                    self._done(name, ticket)
                    lost()

    def replicas(self) -> dict[str, int]:
        """How many replicas each node has now."""
        return {name: len(pool.replicas) for name, pool in self._pools.items()}

    def _start(self, name: str) -> str:
        replica = f"{name}-{next(self._numbers)}"
        self._pools[name].starting(replica, self.now_s)
        return replica

    def _tick(self) -> None:
        for name, pool in self._pools.items():
            todo = pool.tick(self.now_s)
            for replica in todo.stop:
                pool.lost(replica, self.now_s, expected=True)
            for _ in range(todo.start):
                replica = self._start(name)
                ready_s = self.now_s + self._profiles[name].cold_start_s
                self.at(ready_s, lambda name=name, replica=replica: self._ready(name, replica))
            self._placed(pool.dispatch(self.now_s))
        self.at(self.now_s + TICK_S, self._tick)

    def _ready(self, name: str, replica: str) -> None:
        if replica in self._pools[name].replicas:
            self._placed(self._pools[name].is_ready(replica, self.now_s))

    def _sample(self) -> None:
        for name, pool in self._pools.items():
            self.outcome.nodes[name].replicas.append((self.now_s, len(pool.replicas)))
        self.at(self.now_s + self._sample_s, self._sample)

    def _placed(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            begin = self._held.pop(ticket, None)
            if begin is not None:
                begin()

    def _ask(
        self, name: str, session: str, begin: Callable[[Ticket], None], lost: Callable[[], None]
    ) -> None:
        """Ask for a place at a node; `begin` when there is one, `lost` if there never will be."""
        pool, ticket, node = self._pools[name], Ticket(session=session), self.outcome.nodes[name]
        node.runs += 1

        def placed() -> None:
            node.waits_s.append(self.now_s - ticket.asked_s)
            self._lost[ticket] = lost
            begin(ticket)

        try:
            if pool.ask(ticket, self.now_s):
                placed()
                return
        except MotetError:
            lost()
            return
        self._held[ticket] = placed
        self.at(self.now_s + self._max_wait_s[name], lambda: self._give_up(name, ticket, lost))

    def _give_up(self, name: str, ticket: Ticket, lost: Callable[[], None]) -> None:
        if self._held.pop(ticket, None) is not None:
            self._pools[name].give_up(ticket)
            self.outcome.nodes[name].refused += 1
            lost()

    def _done(self, name: str, ticket: Ticket) -> None:
        """A run is over; nothing happens to one that went with its replica."""
        if self._lost.pop(ticket, None) is None:
            return
        self._placed(self._pools[name].done(ticket, self.now_s))

    def _arrive(self, arrival: Arrival) -> None:
        session = _Session(f"s{next(self._numbers)}", self.now_s + arrival.length_s)
        self.outcome.sessions += 1
        self.outcome.session_s += arrival.length_s
        for name in self.standing:
            self._ask(
                name,
                session.name,
                lambda ticket, name=name: self._stand(session, name, ticket),
                lambda: self._fail(session),
            )
        self.at(self.now_s + self._think_s(session), lambda: self._speak(session))

    def _think_s(self, session: _Session) -> float:
        return self._rng.expovariate(1 / self.habits.think_s) if self.standing else 0.0

    def _stand(self, session: _Session, name: str, ticket: Ticket) -> None:
        session.standing[name] = ticket
        self.at(max(self.now_s, session.ends_s), lambda: self._done(name, ticket))

    def _fail(self, session: _Session) -> None:
        if not session.failed:
            session.failed = True
            self.outcome.failed_sessions += 1

    def _speak(self, session: _Session) -> None:
        """A turn begins, unless the session is over."""
        if session.failed or (self.standing and self.now_s >= session.ends_s):
            return
        self._enter(_Turn(session, self.now_s, list(self.path)), self.now_s)

    def _enter(self, turn: _Turn, upstream_s: float) -> None:
        """The turn reaches its next node; `upstream_s` is when the node before it will be done."""
        name = turn.left.pop(0)

        def begin(ticket: Ticket) -> None:
            run = self._draw(name, ticket)
            ends_s = max(self.now_s + run.busy_s, upstream_s)
            self.at(ends_s, lambda: self._done(name, ticket))
            self.at(self.now_s + run.first_s, lambda: self._onward(turn, ends_s))

        self._ask(name, turn.session.name, begin, lambda: self._fault(turn))

    def _onward(self, turn: _Turn, ends_s: float) -> None:
        if not turn.alive:
            return
        if turn.left:
            self._enter(turn, ends_s)
            return
        self.outcome.latencies_s.append((self.now_s, self.now_s - turn.began_s))
        if self.standing:
            self.at(ends_s + self._think_s(turn.session), lambda: self._speak(turn.session))

    def _fault(self, turn: _Turn) -> None:
        """The turn fails; a request with it, while a conversation goes on with its next turn."""
        if not turn.alive:
            return
        turn.alive = False
        if self.standing:
            next_s = self.now_s + self._think_s(turn.session)
            self.at(next_s, lambda: self._speak(turn.session))
        else:
            self._fail(turn.session)

    def _draw(self, name: str, ticket: Ticket) -> Run:
        """A measured run of about the number that the replica serves now."""
        replica = self._pools[name].replicas.get(ticket.replica or "")
        active = replica.sessions if replica else 1
        runs = self._runs[name]
        return self._rng.choice(runs[min(runs, key=lambda known: abs(known - active))])


def split(graph: Graph) -> tuple[list[str], list[str]]:
    """The nodes that stand for a whole session, and those that a turn passes, each in order."""
    if graph.spec.conversation is None:
        return [], list(graph.order)
    below: set[str] = set()
    for name in graph.order:
        if graph.producers[name] & (below | {CONVERSATION}):
            below.add(name)
    standing = [name for name in graph.order if name not in below]
    return standing, [name for name in graph.order if name in below]


def by_active(runs: Iterable[Run]) -> dict[int, list[Run]]:
    """Runs by how many the replica served with them."""
    found: dict[int, list[Run]] = {}
    for run in runs:
        found.setdefault(run.active, []).append(run)
    return found
