"""A plan as people read it: replicas, latencies, money, a machine's death, what to buy first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...components.base import Resources
from ..graph import Graph, Node
from .inputs import Arrival, Prices, packed
from .outcome import Outcome
from .profile import Profile
from .simulation import Simulation

MOST_MORE = 24
"""How many replicas more are tried to keep the target, at most."""

HELPS = 0.02
"""By what share one must lower the 95th percentile to be worth another."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What the 95th percentile becomes with one more replica of a node, at what more per hour."""

    node: str
    p95_s: float
    per_hour: float


@dataclass(frozen=True, slots=True)
class Death:
    """What a machine's death does: runs and sessions that fail, and how long turns are late."""

    at_s: float
    failed_runs: int
    failed_sessions: int
    late_for_s: float


@dataclass(frozen=True, slots=True)
class Enough:
    """How many `replicas` some nodes are to have at least, and the 95th percentile with them;
    `kept` is False if none were found with which it is within the target."""

    replicas: Mapping[str, int]
    p95_s: float
    kept: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that `motet plan` says."""

    outcome: Outcome
    target_s: float
    prices: Prices
    per_hour: float
    per_audio_minute: float
    machines: Mapping[str, int]
    death: Death | None
    advice: Sequence[Advice]
    enough: Enough | None


@dataclass(frozen=True, slots=True)
class Planner:
    """Makes plans of one graph for one load; every simulation sees the same arrivals."""

    graph: Graph
    profile: Profile
    concurrency: Mapping[str, int]
    resources: Mapping[str, Resources]
    arrivals: Sequence[Arrival]
    seconds: float
    prices: Prices
    target_s: float
    simulate: Callable[[Graph], Simulation]

    def plan(self, *, death_at_s: float | None = None) -> Plan:
        """Simulate the load, then a machine's death in it, then one more replica of each node."""
        outcome = self.simulate(self.graph).run(self.arrivals, self.seconds)
        per_hour, machines = self._cost(outcome)
        audio_minutes_per_hour = outcome.session_s / 60 / max(self.seconds / 3600, 1e-9)
        advice = self._advice(self.graph, outcome, per_hour)
        missed = outcome.percentile(0.95) > self.target_s
        return Plan(
            outcome=outcome,
            target_s=self.target_s,
            prices=self.prices,
            per_hour=per_hour,
            per_audio_minute=per_hour / audio_minutes_per_hour if audio_minutes_per_hour else 0.0,
            machines=machines,
            death=self._death(death_at_s, machines) if death_at_s is not None else None,
            advice=advice,
            enough=self._enough(outcome, advice, per_hour) if missed else None,
        )

    def _cost(self, outcome: Outcome) -> tuple[float, dict[str, int]]:
        """The mean price of an hour, and the machines at the most expensive sample."""
        samples = zip(*(one.replicas for one in outcome.nodes.values()), strict=True)
        known: dict[tuple[int, ...], tuple[float, dict[str, int]]] = {}
        costs: list[tuple[float, dict[str, int]]] = []
        for sample in samples:
            counts = tuple(count for _, count in sample)
            if counts not in known:
                needs = [
                    (self.resources[name].cpus, self.resources[name].gpus)
                    for name, count in zip(outcome.nodes, counts, strict=True)
                    for _ in range(count)
                ]
                machines, cost = packed(needs, self.prices)
                known[counts] = (cost, machines)
            costs.append(known[counts])
        if not costs:
            return 0.0, {}
        mean = sum(cost for cost, _ in costs) / len(costs)
        return mean, max(costs, key=lambda one: one[0])[1]

    def _death(self, at_s: float, machines: Mapping[str, int]) -> Death:
        """One of the machines goes, with its share of the replicas."""
        simulation = self.simulate(self.graph)
        share = 1 / max(1, sum(machines.values()))
        simulation.at(at_s, lambda: simulation.kill(share))
        outcome = simulation.run(self.arrivals, self.seconds)
        late = [
            at
            for at, took in outcome.latencies_s
            if at >= at_s and took > self.target_s and at < at_s + 600
        ]
        return Death(
            at_s=at_s,
            failed_runs=sum(node.failed for node in outcome.nodes.values()),
            failed_sessions=outcome.failed_sessions,
            late_for_s=max(late) - at_s if late else 0.0,
        )

    def _enough(self, outcome: Outcome, advice: Sequence[Advice], per_hour: float) -> Enough:
        """One more replica where it helps most, and again, until the target is kept or it helps no
        more."""
        graph, p95_s, replicas = self.graph, outcome.percentile(0.95), dict[str, int]()
        for _ in range(MOST_MORE):
            if not advice or advice[0].p95_s > (1 - HELPS) * p95_s:
                break
            name, p95_s = advice[0].node, advice[0].p95_s
            graph = one_more(graph, name)
            replicas[name] = graph.nodes[name].spec.scale.min_replicas
            if p95_s <= self.target_s:
                break
            outcome = self.simulate(graph).run(self.arrivals, self.seconds)
            advice = self._advice(graph, outcome, per_hour)
        return Enough(replicas, p95_s, p95_s <= self.target_s)

    def _advice(self, graph: Graph, outcome: Outcome, per_hour: float) -> list[Advice]:
        """One more replica of each node whose runs waited, best first."""
        found: list[Advice] = []
        for name, node in outcome.nodes.items():
            if not any(wait_s > 0 for wait_s in node.waits_s) and not node.refused:
                continue
            changed = self.simulate(one_more(graph, name)).run(self.arrivals, self.seconds)
            cost, _ = self._cost(changed)
            found.append(Advice(name, changed.percentile(0.95), cost - per_hour))
        return sorted(found, key=lambda one: (one.p95_s, one.per_hour))


def one_more(graph: Graph, name: str) -> Graph:
    """The same graph with one replica more of a node, from the start on."""
    scale = graph.nodes[name].spec.scale
    return _scaled(graph, {name: (scale.min_replicas + 1, scale.max_replicas + 1)})


def one_each(graph: Graph) -> Graph:
    """The same graph with one replica of each node, always."""
    return _scaled(graph, dict.fromkeys(graph.nodes, (1, 1)))


def _scaled(graph: Graph, replicas: Mapping[str, tuple[int, int]]) -> Graph:
    """The same graph with other numbers of replicas, the fewest and the most, of some nodes."""
    nodes = dict(graph.nodes)
    for name, (fewest, most) in replicas.items():
        node = graph.nodes[name]
        update = {"min_replicas": fewest, "max_replicas": most}
        scale = node.spec.scale.model_copy(update=update)
        spec = node.spec.model_copy(update={"scale": scale})
        nodes[name] = Node(name, spec, node.accepts, node.emits)
    return Graph(graph.spec, nodes, graph.edges)


def render(plan: Plan) -> str:
    """The plan as text."""
    outcome = plan.outcome
    p50, p95, p99 = (outcome.percentile(share) * 1000 for share in (0.5, 0.95, 0.99))
    verdict = "kept" if p95 <= plan.target_s * 1000 else "MISSED"
    lines = [
        f"{outcome.sessions} sessions, {len(outcome.latencies_s)} turns in"
        f" {outcome.seconds / 3600:.1f} h; {outcome.failed_sessions} sessions failed",
        f"time to first output: p50 {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms"
        f" (p95 within {plan.target_s * 1000:.0f} ms: {verdict})",
        "",
        "node          replicas mean / most   runs    waited p95   refused",
    ]
    for name, node in outcome.nodes.items():
        waits = sorted(node.waits_s)
        wait_ms = waits[int(0.95 * len(waits))] * 1000 if waits else 0.0
        lines.append(
            f"{name:14}{node.mean_replicas():8.1f} / {node.most_replicas():<8}"
            f"{node.runs:10}{wait_ms:11.0f} ms{node.refused:8}"
        )
    lines += ["", _machines(plan)]
    if plan.death is not None:
        lines.append(
            f"a machine dies after {plan.death.at_s:.0f} s: {plan.death.failed_runs} runs fail,"
            f" {plan.death.failed_sessions} sessions; turns are late for"
            f" {plan.death.late_for_s:.0f} s"
        )
    for advice in plan.advice:
        cost = f", {advice.per_hour:+.2f} {plan.prices.currency} an hour"
        lines.append(
            f"one more {advice.node}: p95 {advice.p95_s * 1000:.0f} ms"
            + ("" if plan.prices.free else cost)
        )
    if plan.advice and plan.advice[0].p95_s < outcome.percentile(0.95):
        lines.append(f"buy first: {plan.advice[0].node}")
    if plan.enough is not None:
        lines.append(_enough(plan.enough, plan.target_s))
    return "\n".join(lines)


def _machines(plan: Plan) -> str:
    """What there is at the peak, and what it costs if that is known."""
    machines = ", ".join(f"{count} x {name}" for name, count in plan.machines.items()) or "none"
    if plan.prices.free:
        return f"machines at the peak: {machines}; what they cost takes --prices FILE"
    return (
        f"cost: {plan.per_hour:.2f} {plan.prices.currency} an hour on average,"
        f" {plan.per_audio_minute:.5f} a minute of session; at the peak {machines}"
    )


def _enough(enough: Enough, target_s: float) -> str:
    """What it takes to keep the target."""
    replicas = ", ".join(f"{count} replicas of {name}" for name, count in enough.replicas.items())
    begin, p95 = f"to keep p95 within {target_s * 1000:.0f} ms: ", f"{enough.p95_s * 1000:.0f} ms"
    if enough.kept:
        return f"{begin}at least {replicas} (p95 {p95})"
    least = f"with at least {replicas} it is {p95}, and " if replicas else ""
    return f"{begin}{least}further replicas don't help"
