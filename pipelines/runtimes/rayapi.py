"""Ray as the Ray files use it: imported by name, since its types aren't there without it."""

from __future__ import annotations

import importlib
from typing import Any

ray: Any = importlib.import_module("ray")
serve: Any = importlib.import_module("ray.serve")
_exceptions: Any = importlib.import_module("ray.serve.exceptions")

RayError: type[Exception] = ray.exceptions.RayError
BackPressureError: type[Exception] = _exceptions.BackPressureError
DeploymentUnavailableError: type[Exception] = _exceptions.DeploymentUnavailableError
