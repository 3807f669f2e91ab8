"""How a benchmark's client reaches a server: in its process at the ASGI boundary, or by socket."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from starlette.types import ASGIApp
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed


class Refused(Exception):
    """The server closed the session; `code` says why."""

    def __init__(self, code: int) -> None:
        super().__init__(f"closed with {code}")
        self.code = code


class Socket(Protocol):
    """One WebSocket, seen from its client."""

    async def send(self, text: str) -> None:
        """Send a text message."""
        ...

    async def receive(self) -> str:
        """The next text message. Raises `Refused` when the server has closed."""
        ...

    async def close(self) -> None:
        """Hang up."""
        ...


class InProcess:
    """A WebSocket that is two queues: all of the server but its socket and HTTP parser."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._to_server: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._to_client: asyncio.Queue[dict[str, Any]] = asyncio.Queue(1024)
        scope: dict[str, Any] = {
            "type": "websocket",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "ws",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"localhost")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "subprotocols": [],
            "state": {},
        }
        self._to_server.put_nowait({"type": "websocket.connect"})
        self._task = asyncio.create_task(self._serve(app, scope))

    async def _serve(self, app: ASGIApp, scope: dict[str, Any]) -> None:
        await app(scope, self._to_server.get, self._take)

    async def _take(self, message: Any) -> None:
        await self._to_client.put(dict(message))

    async def send(self, text: str) -> None:
        """Hand the server a message."""
        self._to_server.put_nowait({"type": "websocket.receive", "text": text})

    async def receive(self) -> str:
        """The server's next message."""
        while True:
            message = await self._to_client.get()
            if message["type"] == "websocket.send":
                return str(message["text"])
            if message["type"] == "websocket.close":
                raise Refused(int(message.get("code", 1000)))

    async def close(self) -> None:
        """Hang up and wait for the server to have let go."""
        self._to_server.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await asyncio.gather(self._task, return_exceptions=True)


class OverSocket:
    """A real WebSocket connection."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, url: str) -> OverSocket:
        """Connect to a ws:// address."""
        return cls(await connect(url, max_size=None, compression=None))

    async def send(self, text: str) -> None:
        """Send a text message."""
        try:
            await self._connection.send(text)
        except ConnectionClosed as error:
            raise Refused(error.rcvd.code if error.rcvd else 1006) from error

    async def receive(self) -> str:
        """The next text message."""
        try:
            message = await self._connection.recv()
        except ConnectionClosed as error:
            raise Refused(error.rcvd.code if error.rcvd else 1006) from error
        return message if isinstance(message, str) else message.decode()

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()
