"""The carriers' dialects: their JSON messages as one set of values, and back.

Twilio's Media Streams set the pattern; the others differ in spelling, in how they pass parameters,
and in what sizes of audio they take. Numbers may come as strings. Sources: each carrier's page on
its media-streaming WebSocket messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from ...components.errors import BadInput, nearest

Message = dict[str, Any]
Encoding = Literal["pcmu", "pcma", "l16"]

_ENCODINGS: dict[str, Encoding] = {
    "audio/x-mulaw": "pcmu",
    "mulaw": "pcmu",
    "pcmu": "pcmu",
    "audio/x-alaw": "pcma",
    "alaw": "pcma",
    "pcma": "pcma",
    "audio/x-l16": "l16",
    "audio/l16": "l16",
    "l16": "l16",
    "audio/x-raw": "l16",
    "raw/slin": "l16",
    "slin": "l16",
}
_RATES_HZ = {"pcmu": (8_000,), "pcma": (8_000,), "l16": (8_000, 16_000, 24_000)}


@dataclass(frozen=True, slots=True)
class Started:
    """The call's stream has begun; `parameters` are what the operator attached to it."""

    stream_id: str
    call_id: str
    encoding: Encoding
    rate_hz: int
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Heard:
    """What the caller said: base64 of the stream's encoding. `chunk` counts, None if it doesn't."""

    payload: str
    chunk: int | None


@dataclass(frozen=True, slots=True)
class Pressed:
    """A key of the caller's keypad."""

    digit: str


@dataclass(frozen=True, slots=True)
class Played:
    """Everything sent before the mark of this name has been played, or thrown away."""

    name: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The stream is over."""


Inbound = Started | Heard | Pressed | Played | Stopped


@dataclass(frozen=True, slots=True)
class Dialect:
    """One carrier's spelling. Audio goes out in `quantum_bytes` and at least `least_bytes`.

    `stream`, `call`, `format`, `rate`, `parameters` are keys of its `start` message; `ordered`
    says that media come in order; `addressed` that what we send must name the stream.
    """

    name: str
    stream: str
    call: str
    format: str
    rate: str
    parameters: str
    default_encoding: Encoding = "pcmu"
    ordered: bool = True
    addressed: bool = True
    plivo: bool = False
    quantum_bytes: int = 1
    least_bytes: int = 0

    def parse(self, message: Mapping[str, Any]) -> Inbound | None:
        """A message of the carrier as a value; None for those that ask for nothing.

        Raises:
            BadInput: it lacks what its kind needs, or has audio that nobody here speaks.
        """
        match message.get("event"):
            case "start":
                return self._started(message)
            case "media":
                return self._heard(_object(message, "media"))
            case "dtmf":
                return Pressed(_text(_object(message, "dtmf"), "digit"))
            case "mark":
                return Played(_text(_object(message, "mark"), "name"))
            case "playedStream":
                return Played(_text(message, "name"))
            case "stop":
                return Stopped()
            case str():
                return None
            case other:
                raise BadInput(f"a message without an event: {other!r}", where=self.name)

    def media(self, stream_id: str, payload: str, started: Started) -> Message:
        """Audio for the caller to hear."""
        if not self.plivo:
            return self._to(stream_id, {"event": "media", "media": {"payload": payload}})
        kind = {"pcmu": "audio/x-mulaw", "pcma": "audio/x-alaw", "l16": "audio/x-l16"}
        media = {
            "contentType": kind[started.encoding],
            "sampleRate": started.rate_hz,
            "payload": payload,
        }
        return {"event": "playAudio", "media": media}

    def mark(self, stream_id: str, name: str) -> Message:
        """Asks to be told when everything before it was played."""
        if self.plivo:
            return {"event": "checkpoint", "streamId": stream_id, "name": name}
        return self._to(stream_id, {"event": "mark", "mark": {"name": name}})

    def clear(self, stream_id: str) -> Message:
        """Asks to throw away what wasn't played yet."""
        event = "clearAudio" if self.plivo else "clear"
        return self._to(stream_id, {"event": event})

    def _to(self, stream_id: str, message: Message) -> Message:
        return message | {self.stream: stream_id} if self.addressed else message

    def _started(self, message: Mapping[str, Any]) -> Started:
        start = _object(message, "start")
        stream_id = start.get(self.stream) or message.get(self.stream)
        if not isinstance(stream_id, str):
            raise BadInput(f"start without {self.stream}", where=self.name, param=self.stream)
        encoding, rate_hz = self._format(start.get(self.format))
        given = message.get("extra_headers") if self.plivo else start.get(self.parameters)
        call_id = str(start.get(self.call, ""))
        return Started(stream_id, call_id, encoding, rate_hz, _parameters(given))

    def _format(self, given: object) -> tuple[Encoding, int]:
        fields: Mapping[str, Any] = {}
        if isinstance(given, Mapping):
            fields = cast("Mapping[str, Any]", given)
        name = str(fields.get("encoding", self.default_encoding)).lower()
        kind = name.partition(";")[0].strip()
        encoding = self.default_encoding if kind == "base64" else _ENCODINGS.get(kind)
        if encoding is None:
            raise BadInput(
                f"audio in {name!r}; {nearest(kind, list(_ENCODINGS))}",
                where=self.name,
                param="encoding",
            )
        rate_hz = _number(fields.get(self.rate, 8_000), self.rate)
        if rate_hz not in _RATES_HZ[encoding]:
            known = ", ".join(map(str, _RATES_HZ[encoding]))
            raise BadInput(
                f"{encoding} at {rate_hz} Hz; possible: {known}", where=self.name, param=self.rate
            )
        return encoding, rate_hz

    def _heard(self, media: Mapping[str, Any]) -> Heard | None:
        if media.get("track", "inbound") not in ("inbound", "inbound_track"):
            return None
        chunk = media.get("chunk")
        return Heard(_text(media, "payload"), None if chunk is None else _number(chunk, "chunk"))


DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect("twilio", "streamSid", "callSid", "mediaFormat", "sampleRate", "customParameters"),
        Dialect(
            "telnyx",
            "stream_id",
            "call_control_id",
            "media_format",
            "sample_rate",
            "custom_parameters",
            ordered=False,
            addressed=False,
        ),
        Dialect(
            "plivo", "streamId", "callId", "mediaFormat", "sampleRate", "extra_headers", plivo=True
        ),
        Dialect(
            "exotel",
            "stream_sid",
            "call_sid",
            "media_format",
            "sample_rate",
            "custom_parameters",
            default_encoding="l16",
            quantum_bytes=320,
            least_bytes=3_200,
        ),
    )
}


def dialect(name: str) -> Dialect:
    """The dialect of that carrier.

    Raises:
        BadInput: there is none.
    """
    if name not in DIALECTS:
        raise BadInput(f"carrier {name!r}; {nearest(name, list(DIALECTS))}", where="telephony")
    return DIALECTS[name]


def _object(message: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = message.get(key)
    if not isinstance(value, Mapping):
        raise BadInput(f"{message.get('event')} without an object {key!r}", param=key)
    return cast("Mapping[str, Any]", value)


def _text(message: Mapping[str, Any], key: str) -> str:
    value = message.get(key)
    if not isinstance(value, str | int):
        raise BadInput(f"{key} is {value!r}, not a text", param=key)
    return str(value)


def _number(value: object, key: str) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise BadInput(f"{key} is {value!r}, not a number", param=key) from None


def _parameters(given: object) -> dict[str, str]:
    """Custom parameters: an object, or Plivo's "name=value;other=value"."""
    if isinstance(given, Mapping):
        return {str(k): str(v) for k, v in cast("Mapping[Any, Any]", given).items()}
    if isinstance(given, str):
        pairs = (pair.partition("=") for pair in given.replace(",", ";").split(";"))
        return {name.strip(): value.strip() for name, mark, value in pairs if mark}
    return {}
