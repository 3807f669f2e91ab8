"""A day of a graph, simulated: sessions and their turns, on the runtimes' own pools and policy."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..components.errors import BadInput
from .graph import CONVERSATION, Graph
from .planagenda import Agenda
from .plancontention import Pace, Strand
from .planinputs import Arrival, Habits
from .planoutcome import NodeOutcome, Outcome
from .planplaces import Places
from .pool import Ticket
from .profile import NodeProfile, Profile


@dataclass(slots=True, eq=False)
class _Session:
    name: str
    ends_s: float
    failed: bool = False


@dataclass(slots=True, eq=False)
class _Turn:
    """A turn on its way through the nodes; `left` are those that it hasn't reached."""

    session: _Session
    began_s: float
    left: list[str]
    runs: list[_Run] = field(default_factory=list["_Run"])
    alive: bool = True


@dataclass(slots=True, eq=False)
class _Run:
    """A turn's run of a node, over when its work is done and the runs before it are over."""

    name: str
    ticket: Ticket
    worked: bool = False
    over: bool = False

    @property
    def replica(self) -> str:
        return self.ticket.replica or ""


@dataclass(frozen=True, slots=True)
class _Strands:
    """A replica's work: that towards first outputs, and that from there to the ends."""

    first: Strand
    rest: Strand


class Simulation:
    """Runs arrivals through a graph. Nodes before `conversation` hold a place for a whole session;
    the others hold one for a turn, each starting when the one before it has its first output.
    Whenever the number of runs on a replica changes, all of them go on at the pace that was
    measured with that number.

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
        profiles = {name: profile.nodes.get(name, NodeProfile()) for name in graph.nodes}
        lacking = [name for name in self.path if not profiles[name].runs]
        if lacking:
            raise BadInput(f"the profile has no runs of {', '.join(lacking)}", where="profile")
        self.outcome = Outcome({name: NodeOutcome() for name in graph.nodes})
        self._paces = {name: Pace(profiles[name], concurrency[name]) for name in self.path}
        self._strands: dict[str, _Strands] = {}
        self._agenda = Agenda()
        cold_start_s = {name: one.cold_start_s for name, one in profiles.items()}
        self._places = Places(graph, concurrency, cold_start_s, self._agenda, self.outcome.nodes)
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
        session = _Session(f"s{next(self._numbers)}", now_s + arrival.length_s)
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
        self.at(session.ends_s, lambda: self._places.done(name, ticket))

    def _fail(self, session: _Session) -> None:
        if not session.failed:
            session.failed = True
            self.outcome.failed_sessions += 1

    def _think(self, session: _Session) -> None:
        """The session's next turn comes after a thought."""
        think_s = self._rng.expovariate(1 / self.habits.think_s)
        self.at(self._agenda.now_s + think_s, lambda: self._speak(session))

    def _speak(self, session: _Session) -> None:
        """A turn begins, unless the session is over."""
        now_s = self._agenda.now_s
        if session.failed or (self.standing and now_s >= session.ends_s):
            return
        self._enter(_Turn(session, now_s, list(self.path)))

    def _enter(self, turn: _Turn) -> None:
        """The turn reaches its next node."""
        name = turn.left.pop(0)

        def begin(ticket: Ticket) -> None:
            if turn.alive:
                self._begin(turn, _Run(name, ticket))
            else:
                self._places.done(name, ticket)

        self._places.ask(name, turn.session.name, begin, lambda: self._fault(turn))

    def _begin(self, turn: _Turn, run: _Run) -> None:
        """The run has its place: it works towards its first output, then on to its end."""
        turn.runs.append(run)
        pace = self._paces[run.name]
        if run.replica not in self._strands:
            firsts = Strand(self._agenda, in_order=pace.in_order)
            self._strands[run.replica] = _Strands(firsts, Strand(self._agenda))
        strands = self._strands[run.replica]
        self._repace(run)
        active = self._places.serving(run.name, run.replica)
        first_s, rest_s = pace.draw(active, self._rng)

        def first() -> None:
            strands.rest.add(rest_s, lambda: self._worked(turn, run))
            self._onward(turn)

        strands.first.add(first_s, first)

    def _repace(self, run: _Run) -> None:
        """From now on, what the run's replica serves goes at the pace for the number of it."""
        active = self._places.serving(run.name, run.replica)
        if active:
            pace, strands = self._paces[run.name], self._strands[run.replica]
            strands.first.slow(pace.first.of(active))
            strands.rest.slow(pace.rest.of(active))
        else:
            self._strands.pop(run.replica, None)

    def _onward(self, turn: _Turn) -> None:
        if not turn.alive:
            return
        if turn.left:
            self._enter(turn)
        else:
            now_s = self._agenda.now_s
            self.outcome.latencies_s.append((now_s, now_s - turn.began_s))

    def _worked(self, turn: _Turn, run: _Run) -> None:
        """A run's work is done: it is over, and what waited for it, unless one before it isn't."""
        run.worked = True
        for one in turn.runs:
            if not one.worked:
                return
            self._leave(one)
        if turn.alive and self.standing and len(turn.runs) == len(self.path):
            self._think(turn.session)

    def _leave(self, run: _Run) -> None:
        if not run.over:
            run.over = True
            self._places.done(run.name, run.ticket)
            self._repace(run)

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
