"""A component of the user's own: imported by its name, and refused where it can't be one."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any, cast

from .base import Component, Options
from .errors import MissingRequirement
from .frames import Frame


def own_class(use: str) -> type[Component]:
    """Import "package.module:Class" from where Python finds modules.

    Raises:
        MissingRequirement: it can't be imported, or isn't a whole component; the message says why.
    """
    module, _, name = use.partition(":")
    if not (module and name) or module.startswith("."):
        raise MissingRequirement(f"{use!r} is no 'package.module:Class'", where="use")
    try:
        found = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        hint = "modules are found where Python finds them: installed, or on PYTHONPATH"
        message = f"{use!r} can't be imported: {error}; {hint}"
        raise MissingRequirement(message, where="use") from error
    except (ImportError, AttributeError) as error:
        raise MissingRequirement(f"{use!r} can't be imported: {error}", where="use") from error
    except Exception as error:  # a module of the user's own may raise anything as it runs
        message = f"{use!r} can't be imported: {type(error).__name__}: {error}"
        raise MissingRequirement(message, where="use") from error
    if not (isinstance(found, type) and issubclass(found, Component)):
        raise MissingRequirement(
            f"{use!r} is no Component; derive it from motet.components.base.Component", where="use"
        )
    if lacks := "; ".join(lacking(found)):
        raise MissingRequirement(f"{use!r} is no whole component: {lacks}", where="use")
    return found


def lacking(kind: type[Component]) -> Iterator[str]:
    """What keeps a class from being a component, one clause each."""
    for port in ("accepts", "emits"):
        if not is_port(getattr(kind, port, None)):
            got = f"got {getattr(kind, port)!r:.80}" if hasattr(kind, port) else "it has none"
            yield f"`{port}` must be a tuple of frame types, such as (TextDelta,); {got}"
    options: Any = kind.options
    if not (isinstance(options, type) and issubclass(options, Options)):
        yield "`options` must be a class derived from motet.components.base.Options"
    if missing := sorted(kind.__abstractmethods__):
        yield f"it has no {', '.join(f'`{name}`' for name in missing)}"
    elif inspect.iscoroutinefunction(kind.run):
        yield "`run` must yield its frames, and has no `yield`"
    elif not takes_a_run(kind.run):
        signature = str(inspect.signature(kind.run))
        yield f"`run` must take (self, frames, context); its signature is {signature}"


def is_port(value: Any) -> bool:
    """Whether `value` is a tuple of one or more frame types."""
    if not isinstance(value, tuple) or not value:
        return False
    kinds = cast("tuple[object, ...]", value)
    return all(isinstance(one, type) and issubclass(one, Frame) for one in kinds)


def takes_a_run(run: Any) -> bool:
    """Whether `run` can be called with itself, frames and a context."""
    try:
        inspect.signature(run).bind(None, None, None)
    except TypeError:
        return False
    return True
