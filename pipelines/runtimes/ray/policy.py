"""The scaling policy as Ray Serve's controller calls it: the same `Scaler` as everywhere."""

from __future__ import annotations

from typing import Any

from ...pool import busy_replicas
from ...scaling import Scaler
from ...spec import Scale

METRICS_S = 0.5
"""How often replicas and handles report; Ray's 10 s would never see a short burst."""
UTILISATION = "utilisation"
"""What a replica's own report is called."""


class ScalePolicy:
    """Made once per deployment from the five settings; called with Ray's autoscaling context.

    Ray pickles it by value and the rest by name: Motet must be installed where Ray's controller is.
    """

    def __init__(self, concurrency: int, **scale: Any) -> None:
        self._scaler = Scaler(Scale(**scale), concurrency)

    def __call__(self, context: Any) -> tuple[int, dict[str, Any]]:
        """The number of replicas that there should be; nothing is kept in Ray's state."""
        now_s = float(context.current_time or 0.0)
        told: dict[str, dict[Any, float]] = context.aggregated_metrics or {}
        busy = busy_replicas(told.get(UTILISATION, {}).values())
        self._scaler.observe(now_s, float(context.total_num_requests), busy_replicas=busy)
        return self._scaler.desired(now_s, int(context.target_num_replicas)), {}
