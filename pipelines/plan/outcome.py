"""What a simulated day has shown: replicas, waits, latencies, and what failed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class NodeOutcome:
    """What happened at one node: replicas over time, and how long its runs waited."""

    replicas: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    waits_s: list[float] = field(default_factory=list[float])
    refused: int = 0
    failed: int = 0
    runs: int = 0

    def mean_replicas(self) -> float:
        """Replicas, averaged over the samples."""
        counts = [count for _, count in self.replicas]
        return sum(counts) / len(counts) if counts else 0.0

    def most_replicas(self) -> int:
        """The most replicas at any sample."""
        return max((count for _, count in self.replicas), default=0)


@dataclass(slots=True)
class Outcome:
    """What a simulation found. `latencies_s` are turns' times to their first output."""

    nodes: dict[str, NodeOutcome]
    latencies_s: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    sessions: int = 0
    failed_sessions: int = 0
    session_s: float = 0.0
    seconds: float = 0.0

    def percentile(self, share: float, *, since_s: float = 0.0) -> float:
        """A percentile of the turns' latencies in seconds (nearest rank); 0 without turns."""
        values = sorted(value for at_s, value in self.latencies_s if at_s >= since_s)
        return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0
