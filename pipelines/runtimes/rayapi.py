"""Ray as the Ray files use it: imported by name, since its types aren't there without it."""

from __future__ import annotations

import importlib
import os
from typing import Any

# A cluster is joined on purpose only: else a thread of Ray's own that comes late would join it
# again after it was left.
os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
ray: Any = importlib.import_module("ray")
serve: Any = importlib.import_module("ray.serve")
_exceptions: Any = importlib.import_module("ray.serve.exceptions")

RayError: type[Exception] = ray.exceptions.RayError
BackPressureError: type[Exception] = _exceptions.BackPressureError
DeploymentUnavailableError: type[Exception] = _exceptions.DeploymentUnavailableError
