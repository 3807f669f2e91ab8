"""One component's replicas, its queue and its scaling: a pure machine with the clock passed in.

The `workers` and `ray` runtimes carry out what it says; the planner simulates it. So what a plan
promises is what a runtime does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .queueing import WaitEstimate, WorkQueue
from .routing import Pick, Router, least_sessions
from .scaling import Actions, Replica, Scaler, actions
from .spec import Queue, Scale

TICK_S = 0.5
"""How often `tick` is to be called."""

BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0


@dataclass(slots=True, eq=False)
class Ticket:
    """A run that wants a place. `replica` is where it runs, None while it waits.

    `beside` names the replica whose run lends work to this one, which goes anywhere but there.
    """

    session: str = ""
    key: str = ""
    priority: int = 0
    deadline_s: float | None = None
    prefix: str = ""
    beside: str = ""
    asked_s: float = 0.0
    placed_s: float = 0.0
    replica: str | None = None


class Pool:
    """Places runs on replicas and says when replicas are to start, drain and stop.

    Methods that free or bring places return the tickets that were placed by it.
    """

    def __init__(
        self,
        scale: Scale,
        queue: Queue,
        *,
        concurrency: int,
        where: str = "",
        drain_s: float = 30.0,
        preload: bool = True,
        pick: Pick = least_sessions,
    ) -> None:
        self.scale = scale
        self.concurrency = concurrency
        self.replicas: dict[str, Replica] = {}
        self.queue: WorkQueue[Ticket] = WorkQueue(queue, where=where)
        self.service = WaitEstimate()
        self.cold_start_s = WaitEstimate()
        self.active = 0
        self.drain_s = drain_s
        self.preload = preload
        self._scaler = Scaler(scale, concurrency)
        self._router = Router(concurrency, pick=pick)
        self._awake = preload
        self._asked = False
        self._area = 0.0
        self._noted_s = self._ticked_s = 0.0
        self._failures = 0
        self._not_before_s = 0.0

    @property
    def ready(self) -> int:
        """Replicas that take runs."""
        return sum(one.state == "ready" for one in self.replicas.values())

    @property
    def can_serve(self) -> bool:
        """Whether a run would be served: by a ready replica, or by one that its asking starts."""
        return self.ready > 0 or not self._awake or self.scale.min_replicas == 0

    def ask(self, ticket: Ticket, now_s: float) -> bool:
        """Place the run now (True), or let it wait (False).

        Raises:
            Overloaded: the queue is full or too slow.
            DeadlineExceeded: the run couldn't begin in time.
        """
        self._awake = self._asked = True
        self._note(now_s)
        ticket.asked_s = now_s
        if not len(self.queue) and self._place(ticket, now_s):
            return True
        self.queue.push(
            ticket,
            now_s=now_s,
            expected_wait_s=self.expected_wait_s(now_s),
            key=ticket.key,
            priority=ticket.priority,
            deadline_s=ticket.deadline_s,
        )
        return False

    def expected_wait_s(self, now_s: float) -> float:
        """How long a run that comes now would wait: for the queue, and for a first replica."""
        wait_s = self.service.wait_s(len(self.queue), self.concurrency * max(1, self.ready))
        if self.ready:
            return wait_s
        begun_s = min(
            (one.started_s for one in self.replicas.values() if one.state == "starting"),
            default=now_s,
        )
        first_s = max(0.0, self.cold_start_s.service_s - (now_s - begun_s))
        return first_s + wait_s - self.service.wait_s(0, self.concurrency)

    def _place(self, ticket: Ticket, now_s: float) -> bool:
        candidates = tuple(one for one in self.replicas.values() if one.id != ticket.beside)
        replica = self._router.choose(candidates, session=ticket.session, prefix=ticket.prefix)
        if replica is None:
            return False
        replica.sessions += 1
        self.active += 1
        ticket.replica, ticket.placed_s = replica.id, now_s
        return True

    def dispatch(self, now_s: float) -> list[Ticket]:
        """Place waiting runs while there is room."""
        placed: list[Ticket] = []
        while self.has_room() and (ticket := self.queue.pop()) is not None:
            self._place(ticket, now_s)
            placed.append(ticket)
        return placed

    def has_room(self, beside: str = "") -> bool:
        """Whether a ready replica, other than `beside`, has a free place."""
        return any(
            one.state == "ready" and one.load < self.concurrency and one.id != beside
            for one in self.replicas.values()
        )

    def done(self, ticket: Ticket, now_s: float) -> list[Ticket]:
        """A placed run is over, however it ended."""
        self._note(now_s)
        replica = self.replicas.get(ticket.replica or "")
        if replica is not None:
            replica.sessions -= 1
        self.active -= 1
        if not ticket.beside:
            # A piece of a run says nothing of how long a run takes.
            self.service.finished(now_s - ticket.placed_s)
        return self.dispatch(now_s)

    def give_up(self, ticket: Ticket) -> bool:
        """A waiting run is given up; False if it doesn't wait any more."""
        return self.queue.remove(ticket)

    def give_up_all(self) -> list[Ticket]:
        """Empty the queue; the tickets that waited."""
        gone: list[Ticket] = []
        while (ticket := self.queue.pop()) is not None:
            gone.append(ticket)
        return gone

    def starting(self, replica: str, now_s: float, *, version: str = "1") -> None:
        """A replica is being started."""
        self.replicas[replica] = Replica(replica, started_s=now_s, version=version)

    def is_ready(self, replica: str, now_s: float) -> list[Ticket]:
        """A replica has loaded and takes runs."""
        one = self.replicas[replica]
        if one.state == "starting":
            one.state = "ready"
            self._failures = 0
            self.cold_start_s.finished(now_s - one.started_s)
        return self.dispatch(now_s)

    def told(self, replica: str, elsewhere: int, now_s: float) -> list[Ticket]:
        """So many runs on a replica are of other processes, which share it."""
        one = self.replicas.get(replica)
        if one is not None:
            one.elsewhere = elsewhere
        return self.dispatch(now_s)

    def lost(self, replica: str, now_s: float, *, expected: bool = False) -> None:
        """A replica is gone. Unless that was `expected`, the next start waits, longer each time."""
        one = self.replicas.pop(replica, None)
        if one is None or expected:
            return
        backoff_s = min(LONGEST_BACKOFF_S, BACKOFF_S * 2**self._failures)
        self._failures += 1
        self._not_before_s = now_s + backoff_s

    def tick(self, now_s: float, *, busy_replicas: float = 0.0) -> Actions:
        """Observe the load and say what to do; draining states are set here, the rest is told."""
        load = self._load(now_s)
        if self._asked and not self.replicas:
            load = max(load, 1.0)
        self._asked = False
        self._scaler.observe(now_s, load, busy_replicas=busy_replicas)
        serving = sum(one.state in ("starting", "ready") for one in self.replicas.values())
        desired = self._scaler.desired(now_s, serving) if self._awake else 0
        todo = actions(self.replicas.values(), desired, now_s)
        if todo.start and now_s < self._not_before_s:
            todo = Actions(0, todo.revive, todo.drain, todo.stop)
        self._mark(todo, now_s)
        return todo

    def _note(self, now_s: float) -> None:
        """Add up runs times seconds, active and waiting: short runs fall between two ticks."""
        self._area += (self.active + len(self.queue)) * (now_s - self._noted_s)
        self._noted_s = now_s

    def _load(self, now_s: float) -> float:
        """Runs active and waiting, averaged since the last tick."""
        self._note(now_s)
        area, self._area = self._area, 0.0
        passed_s, self._ticked_s = now_s - self._ticked_s, now_s
        now = self.active + len(self.queue)
        return area / passed_s if passed_s >= TICK_S / 4 else float(now)

    def _mark(self, todo: Actions, now_s: float) -> None:
        for name in todo.revive:
            self.replicas[name].state = "ready"
        for name in todo.drain:
            replica = self.replicas[name]
            # One that hasn't loaded yet has nothing to finish, and can't be taken back.
            replica.drain_by_s = now_s if replica.state == "starting" else now_s + self.drain_s
            replica.state = "draining"


def busy_replicas(utilisations: Iterable[float | None]) -> float:
    """The sum of what the replicas say; those that can't tell count as idle."""
    return sum(one for one in utilisations if one is not None)
