"""The exceptions of Motet: each names where it happened, what was got, and what is possible.

MotetError
├── SpecError            a pipeline file, graph or setting is wrong (all faults of it at once)
├── MissingRequirement   a package, extra, model or device is not there
├── BadInput             the caller's data is wrong; the caller can mend it
├── Overloaded           a bound was reached; try again later
├── DeadlineExceeded     the time given is up, or cannot be kept
└── ComponentFailed      a component broke while it worked
    └── ReplicaGone      the process that ran it has ended or fallen silent; a retry may go well
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class MotetError(Exception):
    """Base of every error that Motet raises on purpose; `code` is stable, for programs."""

    code = "internal_error"

    def __init__(self, message: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where
        self.message = message


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that is wrong in a file: the key's path, its line (from 1; 0 unknown), and why."""

    path: str
    message: str
    line: int = 0

    def render(self, file: str = "") -> str:
        """`file:line: path: message`, leaving out what isn't known."""
        place = ":".join(part for part in (file, str(self.line) if self.line else "") if part)
        return ": ".join(part for part in (place, self.path, self.message) if part)


class SpecError(MotetError):
    """A pipeline file or graph is wrong. `flaws` holds every fault found, not only the first."""

    code = "invalid_spec"

    def __init__(self, flaws: Sequence[Flaw], *, file: str = "") -> None:
        super().__init__("\n".join(flaw.render(file) for flaw in flaws))
        self.flaws = tuple(flaws)
        self.file = file


class MissingRequirement(MotetError):
    """Something that must be installed or present isn't; the message says what to install."""

    code = "missing_requirement"


class BadInput(MotetError):
    """The caller's data can't be used. `param` names the offending field where there is one."""

    code = "invalid_value"

    def __init__(self, message: str, *, where: str = "", param: str | None = None) -> None:
        super().__init__(message, where=where)
        self.param = param


class Overloaded(MotetError):
    """A bound (sessions, queue, memory) was reached. `retry_after_s` is a hint, None if unknown."""

    code = "overloaded"

    def __init__(
        self, message: str, *, where: str = "", retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, where=where)
        self.retry_after_s = retry_after_s


class DeadlineExceeded(MotetError):
    """A request's deadline has passed, or a component refused early because it can't be kept."""

    code = "deadline_exceeded"


class ComponentFailed(MotetError):
    """A component broke at work. The turn ends with a `Fault`; the session goes on."""

    code = "component_failed"


class ReplicaGone(ComponentFailed):
    """The process that ran the component has ended or fallen silent; a retry may go well."""

    code = "replica_gone"


def error_of(code: str, message: str, *, where: str = "") -> MotetError:
    """The exception that a stable code stands for; one of an unknown code keeps it. A message that
    names `where` already names it once."""
    kinds = (
        BadInput,
        MissingRequirement,
        Overloaded,
        DeadlineExceeded,
        ComponentFailed,
        ReplicaGone,
    )
    kind = next((kind for kind in kinds if kind.code == code), MotetError)
    error = kind(message.removeprefix(f"{where}: ") if where else message, where=where)
    error.code = code
    return error


def nearest(name: str, known: Sequence[str]) -> str:
    """A hint for a misspelt name: "did you mean 'x'?", else the list of what is known."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"
