"""Frames to protobuf messages and back, driven by the descriptors of motet.proto.

A field that a message leaves out keeps the default of its dataclass. Arrays travel as raw bytes and
arrive as read-only views of the received bytes.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, cast

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from .. import frames as frames_module
from ..errors import BadInput
from ..frames import Audio, Frame
from . import motet_pb2 as pb
from . import sound
from .blobs import BlobStore

DTYPES = frozenset(
    "|b1 |i1 |u1 <i2 <u2 <i4 <u4 <i8 <u8 <f2 <f4 <f8 <c8 <c16".split()  # noqa: SIM905
)
_DTYPE_OF = {name: np.dtype(name) for name in DTYPES}
_NAME_OF = {dtype: name for name, dtype in _DTYPE_OF.items()}
MAX_BYTES = 64 * 1024 * 1024
_KINDS: dict[str, str] = {
    field.message_type.name: field.name
    for field in pb.Frame.DESCRIPTOR.oneofs_by_name["kind"].fields
    if field.message_type is not None
}
_CLASSES: dict[str, type[Frame]] = {
    kind: getattr(frames_module, name)
    for name, kind in _KINDS.items()
    if hasattr(frames_module, name)
}


@dataclass(frozen=True, slots=True)
class _Field:
    """How one field of a dataclass travels; `choices` are the values of a `Literal`.

    `left_out` fields are None by default, and None is said by leaving them out.
    """

    name: str
    kind: Literal["scalar", "tensor", "blob", "json", "pair", "nested"]
    repeated: bool
    presence: bool
    left_out: bool
    nested: type[Any] | None
    choices: tuple[str, ...]
    plain: bool


@cache
def _fields(cls: type[Any]) -> tuple[_Field, ...]:
    """The fields of a dataclass as its message of the same name has them."""
    descriptor = getattr(pb, cls.__name__).DESCRIPTOR
    hints = typing.get_type_hints(cls)
    return tuple(
        _field(descriptor.fields_by_name[field.name], hints[field.name], field.default is None)
        for field in dataclasses.fields(cls)
    )


def _field(descriptor: FieldDescriptor, hint: Any, left_out: bool) -> _Field:
    kind, nested = "scalar", None
    if descriptor.message_type is not None:
        name = descriptor.message_type.name
        kind = {"Tensor": "tensor", "Blob": "blob", "Json": "json", "TokenLogprob": "pair"}.get(
            name, "nested"
        )
        nested = getattr(frames_module, name) if kind == "nested" else None
    choices = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
    return _Field(
        descriptor.name,
        cast(Any, kind),
        descriptor.is_repeated,
        descriptor.has_presence,
        left_out,
        nested,
        choices,
        plain=kind == "scalar" and not descriptor.is_repeated,
    )


class Codec:
    """Encodes and decodes frames; large payloads go through `store` where there is one.

    `max_bytes` bounds every single payload, in shared memory too.
    """

    def __init__(self, store: BlobStore | None = None, *, max_bytes: int = MAX_BYTES) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._inline_bytes = min(max_bytes, store.threshold_bytes - 1) if store else max_bytes

    def encode(self, frame: Frame, out: pb.Frame) -> None:
        """Write a frame into a message.

        Raises:
            BadInput: it is of no known kind, holds what can't travel, or is too large.
        """
        name = type(frame).__name__
        kind = _KINDS.get(name)
        if kind is None or type(frame) is not _CLASSES[kind]:
            raise BadInput(f"{name} frames can't travel between processes")
        try:
            if isinstance(frame, Audio) and sound.put(frame, out, most_bytes=self._inline_bytes):
                return
            message = getattr(out, kind)
            message.SetInParent()
            self._encode(frame, message)
        except (TypeError, ValueError) as error:
            raise BadInput(f"the {name} frame can't be encoded: {error}") from error

    def _encode(self, value: Any, message: Any) -> None:
        for field in _fields(cast("type[Any]", type(value))):
            item: Any = getattr(value, field.name)
            if item is None and field.left_out:
                continue
            if field.plain:
                setattr(message, field.name, item)
            elif field.repeated:
                self._encode_many(
                    field, cast("tuple[Any, ...]", item), getattr(message, field.name)
                )
            else:
                target = getattr(message, field.name)
                target.SetInParent()
                self._encode_one(field, item, target)

    def _encode_many(self, field: _Field, items: tuple[Any, ...], target: Any) -> None:
        if field.kind == "scalar":
            target.extend(items)
            return
        for item in items:
            self._encode_one(field, item, target.add())

    def _encode_one(self, field: _Field, item: Any, target: Any) -> None:
        match field.kind:
            case "tensor":
                self._tensor(item, target)
            case "blob":
                self._blob(item, len(item), target)
            case "json":
                target.text = json.dumps(item, allow_nan=False, separators=(",", ":"))
            case "pair":
                target.token, target.logprob = item
            case _:
                self._encode(item, target)

    def _tensor(self, array: np.ndarray[Any, Any], target: pb.Tensor) -> None:
        dtype = _NAME_OF.get(array.dtype)
        if dtype is None or not array.flags.c_contiguous:
            shape = np.shape(array)
            little = np.asarray(array)
            little = np.ascontiguousarray(little, dtype=little.dtype.newbyteorder("<"))
            array = little.reshape(shape)
            dtype = _NAME_OF.get(array.dtype)
        if dtype is None:
            raise BadInput(f"arrays of {array.dtype} can't travel; possible: {sorted(DTYPES)}")
        target.dtype = dtype
        target.shape.extend(array.shape)
        self._blob(array, array.nbytes, target.data)

    def _blob(self, data: bytes | np.ndarray[Any, Any], size_bytes: int, target: pb.Blob) -> None:
        if size_bytes > self._max_bytes:
            raise BadInput(f"a payload has {size_bytes} bytes; the limit is {self._max_bytes}")
        target.length = size_bytes
        if self._store is not None and size_bytes >= self._store.threshold_bytes:
            whole = data if isinstance(data, bytes) else data.reshape(-1).view(np.uint8).data
            name = self._store.put(memoryview(whole))
            if name is not None:
                target.shared = name
                return
        target.inline = data if isinstance(data, bytes) else data.tobytes()

    def decode(self, message: pb.Frame) -> Frame:
        """Read a frame from a message.

        Raises:
            BadInput: the message holds no frame, or a field of it isn't allowed.
        """
        kind = message.WhichOneof("kind")
        if kind == "audio" and (chunk := sound.take(message.audio)) is not None:
            return chunk
        cls = _CLASSES.get(kind or "")
        if kind is None or cls is None:
            raise BadInput(f"a message of kind {kind!r} is no frame")
        try:
            return self._decode(cls, getattr(message, kind))
        except (TypeError, ValueError, RecursionError) as error:
            raise BadInput(f"the {cls.__name__} message can't be read: {error}") from error

    def _decode(self, cls: type[Any], message: Message) -> Any:
        values: dict[str, Any] = {}
        for field in _fields(cls):
            if field.presence and not message.HasField(field.name):
                continue
            item = getattr(message, field.name)
            if field.repeated:
                values[field.name] = tuple(self._one(field, part) for part in item)
            elif field.plain and not field.choices:
                values[field.name] = item
            else:
                values[field.name] = self._one(field, item)
        return cls(**values)

    def _one(self, field: _Field, item: Any) -> Any:
        match field.kind:
            case "scalar":
                if field.choices and item not in field.choices:
                    possible = ", ".join(field.choices)
                    raise BadInput(f"{field.name} is {item!r}; possible: {possible}")
                return item
            case "tensor":
                return self._array(item)
            case "blob":
                return bytes(self._bytes(item))
            case "json":
                return json.loads(item.text)
            case "pair":
                return item.token, item.logprob
            case "nested":
                return self._decode(cast("type[Any]", field.nested), item)

    def _array(self, message: pb.Tensor) -> np.ndarray[Any, Any]:
        dtype = _DTYPE_OF.get(message.dtype)
        if dtype is None:
            raise BadInput(f"dtype is {message.dtype!r}; possible: {sorted(DTYPES)}")
        return np.frombuffer(self._bytes(message.data), dtype).reshape(message.shape[:])

    def _bytes(self, message: pb.Blob) -> bytes | memoryview:
        if not message.HasField("shared"):
            return message.inline
        if self._store is None:
            raise BadInput("a payload lies in shared memory, which this connection doesn't allow")
        if message.length > self._max_bytes:
            raise BadInput(f"a payload has {message.length} bytes; the limit is {self._max_bytes}")
        return self._store.take(message.shared, message.length)

    def discard(self, message: pb.Frame) -> None:
        """Free the shared memory of a frame that nobody will decode."""
        if self._store is not None:
            _visit(message, self._store.discard)


def _visit(message: Message, discard: Callable[[str], None]) -> None:
    if isinstance(message, pb.Blob):
        if message.WhichOneof("place") == "shared":
            discard(message.shared)
        return
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for part in value if descriptor.is_repeated else (value,):
                _visit(part, discard)
