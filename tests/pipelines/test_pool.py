"""A component's pool: where runs go, when replicas come and go, and that the counts stay true."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.components.errors import DeadlineExceeded, Overloaded
from motet.components.frames import Message, Prompt, TextInput, Tool
from motet.pipelines.pool import Pool, Ticket
from motet.pipelines.routing import Router, power_of_two, prefix_of
from motet.pipelines.scaling import Replica
from motet.pipelines.spec import Queue, Scale


def pool(least: int = 1, most: int = 4, *, concurrency: int = 2, bound: int = 64) -> Pool:
    scale = Scale(min_replicas=least, max_replicas=most, window_s=4, scale_down_delay_s=10)
    return Pool(scale, Queue(bound=bound), concurrency=concurrency, where="n")


def grow(one: Pool, now_s: float, *, take_s: float = 0.0) -> int:
    """Carry out a tick as a runtime would, with replicas that load in `take_s`."""
    todo = one.tick(now_s)
    for name in todo.stop:
        one.lost(name, now_s, expected=True)
    for number in range(todo.start):
        name = f"r{now_s}-{number}"
        one.starting(name, now_s)
        one.is_ready(name, now_s + take_s)
    return todo.start


def test_runs_spread_over_the_replicas_with_fewest() -> None:
    one = pool(least=3)
    grow(one, 0)
    tickets = [Ticket() for _ in range(6)]
    assert all(one.ask(ticket, 1) for ticket in tickets)
    assert [replica.sessions for replica in one.replicas.values()] == [2, 2, 2]
    assert not one.ask(Ticket(), 1)


def test_a_silent_replica_gets_runs_only_when_no_other_has_room() -> None:
    one = pool(least=2)
    grow(one, 0)
    home, other = one.replicas.values()
    home.silent = True
    tickets = [Ticket(session="s") for _ in range(3)]
    assert all(one.ask(ticket, 1) for ticket in tickets)
    assert [ticket.replica for ticket in tickets] == [other.id, other.id, home.id]


def test_a_new_replica_takes_queued_work_at_once() -> None:
    one = pool(least=0, most=1)
    waiting = [Ticket(session=str(number)) for number in range(3)]
    assert not any(one.ask(ticket, 0) for ticket in waiting)
    assert one.tick(0).start == 1
    one.starting("a", 0)
    assert one.is_ready("a", 5) == waiting[:2]
    assert one.cold_start_s.service_s == 5
    assert one.done(waiting[0], 6) == [waiting[2]]


def test_a_session_goes_back_to_its_replica_while_that_has_room() -> None:
    one = pool(least=2)
    grow(one, 0)
    first = Ticket(session="s")
    one.ask(first, 0)
    home = first.replica
    one.done(first, 1)
    others = [Ticket(session=f"o{number}") for number in range(2)]
    for other in others:
        one.ask(other, 1)
    again = Ticket(session="s")
    one.ask(again, 2)
    assert again.replica == home
    full = Ticket(session="s")
    one.ask(full, 2)
    assert full.replica != home


def test_what_a_run_lends_goes_beside_it_and_leaves_no_trace() -> None:
    one = pool(least=2, concurrency=1)
    grow(one, 0)
    run = Ticket(session="s")
    one.ask(run, 0)
    home = run.replica or ""
    (other,) = one.replicas.keys() - {home}
    assert one.has_room(beside=home)
    assert not one.has_room(beside=other)
    lent = Ticket(beside=home)
    assert one.ask(lent, 0)
    assert lent.replica == other
    assert not one.has_room(beside=home)
    one.done(lent, 1)
    assert one.service.service_s == 0, "a piece of a run says nothing of runs"
    one.done(run, 9)
    assert one.service.service_s == 9


def test_a_prompt_goes_where_its_beginning_was_served_unless_that_is_busy() -> None:
    router = Router(concurrency=8)
    fleet = [Replica("a", "ready", 1), Replica("b", "ready", 0)]
    assert router.choose(fleet, prefix="p").id == "b"  # type: ignore[union-attr]
    fleet[1].sessions = 3
    assert router.choose(fleet, prefix="p").id == "b"  # type: ignore[union-attr]
    fleet[1].sessions = 4
    assert router.choose(fleet, prefix="p").id == "a"  # type: ignore[union-attr]


def test_prompts_share_a_prefix_when_they_share_instructions_and_tools() -> None:
    def prompt(system: str, user: str, *tools: str) -> Prompt:
        messages = (Message("system", system), Message("user", user))
        return Prompt(messages, tuple(Tool(name) for name in tools))

    same = prefix_of(prompt("be kind", "hello"))
    assert same == prefix_of(prompt("be kind", "bye"))
    assert len({same, prefix_of(prompt("be", "x")), prefix_of(prompt("be kind", "x", "t"))}) == 3
    assert prefix_of(TextInput("x")) == ""


def test_two_choices_keep_late_heads_from_running_to_one_replica() -> None:
    rng = random.Random(7)
    fleet = [Replica(str(number), "ready") for number in range(10)]
    router = Router(10_000, pick=power_of_two(rng.random))
    for _ in range(10_000):
        router.choose(fleet).sessions += 1  # type: ignore[union-attr]
    counts = [one.sessions for one in fleet]
    assert max(counts) - min(counts) < 30
    assert power_of_two(rng.random)(fleet[:1]) is fleet[0]


def test_a_starting_or_draining_replica_takes_nothing() -> None:
    router = Router(4)
    assert router.choose([Replica("a", "starting"), Replica("b", "draining")]) is None


def test_a_drained_replica_keeps_its_sessions_until_they_end() -> None:
    one = pool(least=1, most=2)
    grow(one, 0)
    tickets = [Ticket(session=str(number)) for number in range(4)]
    for ticket in tickets:
        one.ask(ticket, 1)
    placed = [ticket for ticket in tickets if ticket.replica]
    for now in range(2, 8):
        grow(one, now)
    assert one.ready == 2
    assert len(placed) == 2
    assert all(ticket.replica for ticket in tickets)
    one.done(tickets[0], 8)
    for now in range(9, 40):
        assert one.tick(now).stop == ()
    assert sum(replica.sessions for replica in one.replicas.values()) == 3
    assert one.ready == 2, "three runs need two replicas of two places"
    one.done(tickets[1], 40)
    one.done(tickets[2], 40)
    for now in range(41, 80):
        for name in one.tick(now).stop:
            assert one.replicas[name].sessions == 0
            one.lost(name, now, expected=True)
    assert one.ready == len(one.replicas) == 1
    assert one.replicas[tickets[3].replica or ""].sessions == 1, "the empty one went"


def test_a_loaded_replica_that_just_began_to_drain_is_taken_back() -> None:
    one = pool(least=0, most=1)
    ticket = Ticket()
    one.ask(ticket, 0)
    grow(one, 0)
    one.done(ticket, 1)
    now_s = 1.0
    while not one.tick(now_s).drain:
        now_s += 0.5
    one.ask(Ticket(), now_s)
    todo = one.tick(now_s + 0.5)
    assert (todo.start, todo.revive, todo.stop) == (0, (ticket.replica,), ())


def test_a_replica_that_keeps_dying_is_restarted_ever_more_slowly() -> None:
    one, starts = pool(), []
    for step in range(1200):
        now_s = step / 10
        for _ in range(one.tick(now_s).start):
            one.starting("x", now_s)
            one.lost("x", now_s)
            starts.append(now_s)
    gaps = [after - before for before, after in pairwise(starts)]
    assert len(starts) < 12
    assert gaps[0] < 1
    assert gaps == sorted(gaps)
    assert max(gaps) < 31


def test_from_zero_the_wait_counts_the_cold_start() -> None:
    one = pool(least=0)
    one.ask(Ticket(), 0)
    one.starting("a", 0)
    one.is_ready("a", 8)
    one.lost("a", 9, expected=True)
    assert one.expected_wait_s(20) == pytest.approx(8)
    one.starting("b", 20)
    assert one.expected_wait_s(25) == pytest.approx(3)
    with pytest.raises(DeadlineExceeded):
        one.ask(Ticket(deadline_s=27), 25)


def test_a_refused_run_still_wakes_a_component_at_zero() -> None:
    one = pool(least=0, bound=0)
    assert one.tick(0).start == 0
    with pytest.raises(Overloaded):
        one.ask(Ticket(), 1)
    assert one.tick(2).start == 1


def test_readiness_follows_the_replicas() -> None:
    one = pool(least=1)
    assert not one.can_serve
    grow(one, 0)
    assert one.can_serve
    one.lost(next(iter(one.replicas)), 1)
    assert not one.can_serve
    assert pool(least=0).can_serve


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(0, 2))
def test_whatever_happens_the_counts_stay_true(seed: int, concurrency: int, least: int) -> None:
    rng = random.Random(seed)
    one = pool(least=least, most=5, concurrency=concurrency, bound=10)
    placed: set[Ticket] = set()
    waiting: set[Ticket] = set()
    for step in range(200):
        now_s = step * 0.5
        moved: list[Ticket] = []
        match rng.choice(["ask", "ask", "done", "give", "tick", "ready", "lose"]):
            case "ask":
                ticket = Ticket(session=str(rng.randrange(5)), key=str(rng.randrange(3)))
                with suppress(Overloaded):
                    (placed if one.ask(ticket, now_s) else waiting).add(ticket)
            case "done" if placed:
                ticket = placed.pop()
                moved = one.done(ticket, now_s)
            case "give" if waiting:
                ticket = waiting.pop()
                assert one.give_up(ticket)
            case "tick":
                todo = one.tick(now_s)
                for number in range(todo.start):
                    one.starting(f"{step}-{number}", now_s)
                for name in todo.stop:
                    one.lost(name, now_s, expected=True)
            case "ready":
                for name, replica in list(one.replicas.items()):
                    if replica.state == "starting":
                        moved += one.is_ready(name, now_s)
            case "lose" if one.replicas:
                one.lost(rng.choice(list(one.replicas)), now_s)
            case _:
                pass
        placed |= set(moved)
        waiting -= set(moved)
        assert one.active == len(placed)
        assert len(one.queue) == len(waiting)
        assert len(one.replicas) <= 5 + sum(
            replica.state == "draining" for replica in one.replicas.values()
        )
        for name, replica in one.replicas.items():
            here = sum(ticket.replica == name for ticket in placed)
            assert replica.sessions == here <= concurrency


def test_runs_of_other_processes_take_room_and_free_it() -> None:
    pool = Pool(Scale(), Queue(), concurrency=2)
    pool.starting("a", 0.0)
    pool.is_ready("a", 0.0)
    assert pool.told("a", 2, 1.0) == []
    waits = Ticket()
    assert not pool.ask(waits, 1.0)
    assert pool.told("a", 1, 2.0) == [waits]
    assert not pool.has_room()
    assert pool.active == 1, "the others' runs aren't this process's"
