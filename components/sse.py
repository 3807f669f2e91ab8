"""Server-sent events out of bytes that arrive in any cut."""

from __future__ import annotations

from .errors import ComponentFailed


class SseDecoder:
    """Gives the `data` of each event (WHATWG HTML, 9.2); comments and other fields are skipped.

    Lines end at CR and LF only: splitting text at every Unicode line break would cut JSON that
    holds U+2028. An event larger than `limit_bytes` is refused.
    """

    def __init__(self, *, where: str = "sse", limit_bytes: int = 4 << 20) -> None:
        self._where = where
        self._limit_bytes = limit_bytes
        self._pending = b""
        self._data: list[bytes] = []
        self._data_bytes = 0

    def feed(self, chunk: bytes) -> list[str]:
        """The events that `chunk` completes.

        Raises:
            ComponentFailed: an event is too large, or isn't UTF-8.
        """
        self._pending += chunk
        if len(self._pending) + self._data_bytes > self._limit_bytes:
            raise ComponentFailed(
                f"an event is larger than {self._limit_bytes} bytes", where=self._where
            )
        events: list[str] = []
        *lines, self._pending = self._lines()
        for line in lines:
            events += self._line(line)
        return events

    def flush(self) -> list[str]:
        """The event that the end of the stream completes, for servers that leave out its line."""
        events = self._line(self._pending.rstrip(b"\r")) if self._pending else []
        self._pending = b""
        return events + self._line(b"")

    def _lines(self) -> list[bytes]:
        """The whole lines, then the rest; a CR at the end waits, an LF may follow it."""
        held = self._pending.endswith(b"\r")
        body = self._pending[:-1] if held else self._pending
        lines = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if held:
            lines[-1] += b"\r"
        return lines

    def _line(self, line: bytes) -> list[str]:
        if line.startswith(b"data:"):
            value = line[5:].removeprefix(b" ")
            self._data.append(value)
            self._data_bytes += len(value)
        if line or not self._data:
            return []
        data, self._data, self._data_bytes = b"\n".join(self._data), [], 0
        try:
            return [data.decode()]
        except UnicodeDecodeError as error:
            raise ComponentFailed(f"an event is not UTF-8: {error}", where=self._where) from error
