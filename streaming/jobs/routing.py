"""Routes that answer what the database says in terms of the request."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from psycopg import DataError, OperationalError

from ...components.errors import BadInput, Overloaded

_AGAIN_S = 5.0


class Route(APIRoute):
    """A route whose requests fail with 503 while the database is away, and with 400 where it can't
    keep what they hold (a NUL in a text)."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, with these errors translated."""
        handler = super().get_route_handler()

        async def translated(request: Request) -> Response:
            try:
                return await handler(request)
            except OperationalError as error:
                message = "the database of jobs can't be reached now"
                raise Overloaded(message, where="jobs", retry_after_s=_AGAIN_S) from error
            except DataError as error:
                why = error.diag.message_primary or str(error)
                raise BadInput(f"PostgreSQL can't keep it: {why}") from error

        return translated
