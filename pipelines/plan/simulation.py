"""A day of a graph, simulated: sessions and their turns, on the runtimes' own pools and policy."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ...components.errors import BadInput
from ..graph import CONVERSATION, Graph
from ..pool import Ticket
from .agenda import Agenda
from .contention import Pace
from .cores import Room
from .inputs import Arrival, Habits
from .outcome import NodeOutcome, Outcome
from .places import Places
from .profile import NodeProfile, Profile
from .work import Work


@dataclass(slots=True, eq=False)
class _Session:
    name: str
    ends_s: float
    pauses: Iterator[float]
    samples: Iterator[int]
    failed: bool = False


@dataclass(slots=True, eq=False)
class _Turn:
    """A turn on its way through the nodes; `left` are those that it hasn't reached. `fed` when the
    newest run, or the next one, has what it takes to begin."""

    session: _Session
    sample: int
    began_s: float
    left: list[str]
    runs: list[_Run] = field(default_factory=list["_Run"])
    fed: bool = True
    alive: bool = True


@dataclass(slots=True, eq=False)
class _Run:
    """A turn's run of a node, over when its work is done and the runs before it are over."""

    name: str
    ticket: Ticket
    work: Work
    at_work: bool = False
    worked: bool = False
    over: bool = False

    def rest(self) -> None:
        """It works no more, if it did."""
        if self.at_work:
            self.at_work = False
            self.work.end()


class Simulation:
    """Runs arrivals through a graph. Nodes before `conversation` hold a place for a whole session;
    the others hold one for a turn, from the first output of the one before it on, and are at work
    as soon as that has given them what they need. How fast, is told by `Work`.

    `concurrency` of a node is how many runs a replica serves at once; replicas have the cores of
    the `room` (not given: as many as they want).
    """

    def __init__(
        self,
        graph: Graph,
        profile: Profile,
        concurrency: dict[str, int],
        *,
        habits: Habits | None = None,
        room: Room | None = None,
        seed: int = 0,
    ) -> None:
        self.habits = habits or Habits()
        self.standing, self.path = split(graph)
        profiles = {name: profile.nodes.get(name, NodeProfile()) for name in graph.nodes}
        lacking = [name for name in self.path if not profiles[name].runs]
        if lacking:
            raise BadInput(f"the profile has no runs of {', '.join(lacking)}", where="profile")
        self.outcome = Outcome({name: NodeOutcome() for name in graph.nodes})
        self._profiles, self._samples = profiles, profile.samples
        self._paces = {name: Pace(profiles[name], concurrency[name]) for name in self.path}
        self._works: dict[str, Work] = {}
        self._stands: Counter[str] = Counter()
        self._agenda = Agenda()
        cold_start_s = {name: one.cold_start_s for name, one in profiles.items()}
        self._places = Places(
            graph, concurrency, cold_start_s, self._agenda, self.outcome.nodes, room or Room()
        )
        self._rng = random.Random(seed)
        self._numbers = itertools.count(1)

    def at(self, at_s: float, what: Callable[[], None]) -> None:
        """Do something at a time of the simulation."""
        self._agenda.at(at_s, what)

    def run(self, arrivals: Iterable[Arrival], seconds: float) -> Outcome:
        """Simulate until `seconds`; starts as a runtime does, with the fewest replicas loaded."""
        for arrival in arrivals:
            self.at(arrival.at_s, lambda arrival=arrival: self._arrive(arrival))
        self._places.open(seconds)
        self._agenda.run(seconds)
        self._places.close()
        self.outcome.seconds = seconds
        return self.outcome

    def kill(self, share: float) -> None:
        """A machine dies now: this share of every node's replicas (at least one) goes with it."""
        self._places.kill(share)

    def replicas(self) -> dict[str, int]:
        """How many replicas each node has now."""
        return self._places.replicas()

    def _arrive(self, arrival: Arrival) -> None:
        now_s = self._agenda.now_s
        number = next(self._numbers)
        ends_s, pauses = now_s + arrival.length_s, self.habits.pauses(number)
        session = _Session(f"s{number}", ends_s, pauses, itertools.count(number))
        self.outcome.sessions += 1
        self.outcome.session_s += arrival.length_s
        for name in self.standing:
            self._places.ask(
                name,
                session.name,
                lambda ticket, name=name: self._stand(session, name, ticket),
                lambda: self._fail(session),
            )
        if self.standing:
            self._think(session)
        else:
            self._speak(session)

    def _stand(self, session: _Session, name: str, ticket: Ticket) -> None:
        """A standing node serves the session, and is busy with it, until it ends."""
        replica = ticket.replica or ""

        def busy(by: int) -> None:
            self._stands[replica] += by
            cores = self._stands[replica] * self._profiles[name].standing_cores
            self._places.machines.want(replica, cores)

        def leave() -> None:
            busy(-1)
            self._places.done(name, ticket)

        busy(1)
        self.at(session.ends_s, leave)

    def _fail(self, session: _Session) -> None:
        if not session.failed:
            session.failed = True
            self.outcome.failed_sessions += 1

    def _think(self, session: _Session) -> None:
        """The session's next turn comes after a thought."""
        self.at(self._agenda.now_s + next(session.pauses), lambda: self._speak(session))

    def _speak(self, session: _Session) -> None:
        """A turn begins, unless the session is over."""
        now_s = self._agenda.now_s
        if session.failed or (self.standing and now_s >= session.ends_s):
            return
        sample = next(session.samples) % self._samples
        self._enter(_Turn(session, sample, now_s, list(self.path)))

    def _enter(self, turn: _Turn) -> None:
        """The turn reaches its next node."""
        name = turn.left.pop(0)

        def begin(ticket: Ticket) -> None:
            if turn.alive:
                turn.runs.append(_Run(name, ticket, self._work(name, ticket.replica or "")))
                self._begin(turn)
            else:
                self._places.done(name, ticket)

        self._places.ask(name, turn.session.name, begin, lambda: self._fault(turn))

    def _work(self, name: str, replica: str) -> Work:
        if replica not in self._works:
            machines = self._places.machines
            self._works[replica] = Work(self._agenda, self._paces[name], machines, replica)
        return self._works[replica]

    def _begin(self, turn: _Turn) -> None:
        """The newest run is at work, if it has its place and what it needs from the one before."""
        run = turn.runs[-1]
        if turn.fed and not run.at_work and not run.worked:
            turn.fed, run.at_work = False, True
            run.work.begin(self._rng, turn.sample, lambda rest_s: self._first(turn, run, rest_s))

    def _first(self, turn: _Turn, run: _Run, rest_s: float) -> None:
        """A run has its first output: the next one takes its place, and begins when it can."""
        if not run.at_work:
            return
        needs_s = rest_s * self._needed(turn, rest_s)
        self._onward(turn)

        def feed() -> None:
            turn.fed = True
            if run.at_work and turn.runs[-1] is not run:
                self._begin(turn)
            run.work.go_on(rest_s - needs_s, lambda: self._worked(turn, run))

        if needs_s:
            run.work.go_on(needs_s, feed)
        else:
            feed()

    def _needed(self, turn: _Turn, rest_s: float) -> float:
        """The share of a run with such a rest that its successor needs, as in the measured turn
        which was most like it; the successor gets what it got there."""
        needs = self._profiles[turn.left[0]].needs if turn.left else []
        if not needs:
            return 0.0
        turn.sample = min(range(len(needs)), key=lambda at: abs(needs[at].rest_s - rest_s))
        return needs[turn.sample].share

    def _onward(self, turn: _Turn) -> None:
        if turn.left:
            self._enter(turn)
        else:
            now_s = self._agenda.now_s
            self.outcome.latencies_s.append((now_s, now_s - turn.began_s))

    def _worked(self, turn: _Turn, run: _Run) -> None:
        """A run's work is done: it is over, and what waited for it, unless one before it isn't."""
        run.rest()
        run.worked = True
        for one in turn.runs:
            if not one.worked:
                return
            self._leave(one)
        if turn.alive and self.standing and len(turn.runs) == len(self.path):
            self._think(turn.session)

    def _leave(self, run: _Run) -> None:
        run.rest()
        if not run.over:
            run.over = True
            self._places.done(run.name, run.ticket)

    def _fault(self, turn: _Turn) -> None:
        """The turn fails and its work ends; a request fails with it, while a conversation goes on
        with its next turn."""
        if not turn.alive:
            return
        turn.alive = False
        for run in turn.runs:
            self._leave(run)
        if self.standing:
            self._think(turn.session)
        else:
            self._fail(turn.session)


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
