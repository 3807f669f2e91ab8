"""Frames survive the wire, every one of them, and what can't travel is refused in words."""

import dataclasses
import subprocess
import sys
import typing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from motet.components import frames
from motet.components.errors import BadInput
from motet.components.frames import Audio, Data, Frame, Image, TextDelta
from motet.components.wire import motet_pb2 as pb
from motet.components.wire import sound
from motet.components.wire.codec import _CLASSES, DTYPES, Codec

ROOT = Path(__file__).parents[3]
ABSTRACT = {frames.Frame, frames.Control}
KINDS = [
    kind
    for kind in vars(frames).values()
    if isinstance(kind, type) and issubclass(kind, Frame) and kind not in ABSTRACT
]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
ARRAYS = st.sampled_from(sorted(DTYPES)).flatmap(
    lambda dtype: hnp.arrays(
        dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
    )
)
SCALARS = {
    int: st.integers(0, 2**31),
    float: st.floats(allow_nan=False),
    str: TEXT,
    bool: st.booleans(),
    bytes: st.binary(max_size=50),
}


def values(hint: object) -> st.SearchStrategy:
    """Any value of a type that frames use."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint in SCALARS:
        return SCALARS[hint]
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(values(args[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, args))
    if type(None) in args:
        return st.none() | values(next(arg for arg in args if arg is not type(None)))
    if origin is np.ndarray:
        return ARRAYS
    if dataclasses.is_dataclass(hint):
        return built(hint)
    if hint is typing.Any:
        return JSON
    return st.dictionaries(TEXT, JSON, max_size=3)


def built(kind: type) -> st.SearchStrategy:
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{f.name: values(hints[f.name]) for f in dataclasses.fields(kind)})


def assert_same(left: object, right: object) -> None:
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        np.testing.assert_array_equal(left, right)
    elif dataclasses.is_dataclass(left):
        assert type(left) is type(right)
        for field in dataclasses.fields(left):
            assert_same(getattr(left, field.name), getattr(right, field.name))
    else:
        assert left == right


def over(codec: Codec, frame: Frame, back: Codec | None = None) -> Frame:
    message = pb.Frame()
    codec.encode(frame, message)
    return (back or codec).decode(pb.Frame.FromString(message.SerializeToString()))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_frame_survives_the_wire(kind: type[Frame]) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(built(kind))
    def check(frame: Frame) -> None:
        assert_same(frame, over(Codec(), frame))

    check()


def test_the_proto_has_every_frame_and_every_field() -> None:
    assert set(_CLASSES.values()) == set(KINDS)
    for kind in KINDS:
        message = getattr(pb, kind.__name__).DESCRIPTOR
        assert {f.name for f in dataclasses.fields(kind)} == set(message.fields_by_name)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_empty_message_takes_the_defaults_of_the_dataclass(kind: type[Frame]) -> None:
    name = next(name for name, cls in _CLASSES.items() if cls is kind)
    message = pb.Frame()
    getattr(message, name).SetInParent()
    required = {
        f.name
        for f in dataclasses.fields(kind)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    if any(getattr(pb, kind.__name__).DESCRIPTOR.fields_by_name[r].has_presence for r in required):
        with pytest.raises(BadInput, match="missing"):
            Codec().decode(message)
        return
    frame = Codec().decode(message)
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            assert getattr(frame, field.name) == field.default, field.name


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (TextDelta("\ud800"), "TextDelta frame can't be encoded"),
        (Data({"x": {1, 2}}), "not JSON serializable"),
        (Data(float("nan")), "not JSON compliant"),
        (frames.Embedding(np.array([object()])), "arrays of object"),
        (Frame(), "Frame frames can't travel"),
    ],
)
def test_what_cannot_travel_is_refused(frame: Frame, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Codec().encode(frame, pb.Frame())


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (pb.Frame(), "kind None"),
        (pb.Frame(finish=pb.Finish()), "'finish' is no frame"),
        (
            pb.Frame(prompt=pb.Prompt(messages=[pb.Message(role="boss")])),
            "role is 'boss'; possible",
        ),
        (pb.Frame(data=pb.Data(value=pb.Json(text="{"))), "Data message can't be read"),
        (pb.Frame(data=pb.Data(value=pb.Json(text="[" * 100_000))), "Data message can't be read"),
        (
            pb.Frame(audio=pb.Audio(pcm=pb.Tensor(dtype="|O", data=pb.Blob(inline=b"x")))),
            r"dtype is '\|O'",
        ),
        (
            pb.Frame(
                audio=pb.Audio(pcm=pb.Tensor(dtype="<i2", shape=[9], data=pb.Blob(inline=b"xx")))
            ),
            "cannot reshape",
        ),
        (
            pb.Frame(
                audio=pb.Audio(pcm=pb.Tensor(dtype="<i2", data=pb.Blob(shared="../etc/passwd")))
            ),
            "shared memory, which this connection doesn't allow",
        ),
    ],
)
def test_a_message_that_is_no_frame_is_refused(message: pb.Frame, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Codec().decode(message)


def test_arrays_arrive_in_order_whatever_their_memory_layout() -> None:
    picture = np.arange(60, dtype=">i4").reshape(4, 5, 3)[::-1, :, ::2]
    frame = over(Codec(), Image(picture))
    assert isinstance(frame, Image)
    np.testing.assert_array_equal(frame.pixels, picture)
    assert not frame.pixels.flags.writeable


@given(
    pcm=hnp.arrays("<i2", st.integers(1, 400)),
    step=st.sampled_from([1, 2, -1]),
    start_ms=st.floats(0, 1e6),
    speech=st.none() | st.floats(0, 1),
)
def test_the_short_way_of_audio_is_that_of_every_frame(
    pcm: np.ndarray, step: int, start_ms: float, speech: float | None
) -> None:
    frame = Audio(pcm[::step], 24_000, start_ms, speech)
    short, general = pb.Frame(), pb.Frame()
    assert sound.put(frame, short, most_bytes=800)
    Codec()._encode(frame, general.audio)
    assert short.SerializeToString() == general.SerializeToString()
    there = sound.take(short.audio)
    assert there is not None
    assert not there.pcm.flags.writeable
    assert_same(there, Codec()._decode(Audio, general.audio))


@pytest.mark.parametrize(
    "pcm", [np.zeros(401, np.int16), np.zeros((2, 3), np.int16), np.zeros(3, ">i2")]
)
def test_other_audio_goes_the_general_way(pcm: np.ndarray) -> None:
    message = pb.Frame()
    assert not sound.put(Audio(pcm, 16_000), message, most_bytes=800)
    assert message == pb.Frame()
    assert_same(over(Codec(), Audio(pcm, 16_000)).pcm, pcm.astype("<i2"))


def test_payloads_above_the_limit_are_refused_by_both_ends() -> None:
    frame = Audio(np.zeros(1000, np.int16), 16000)
    with pytest.raises(BadInput, match="2000 bytes; the limit is 1999"):
        over(Codec(max_bytes=1999), frame)
    over(Codec(max_bytes=2000), frame)


def test_the_stubs_are_those_of_the_protos(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    protos = sorted(ROOT.glob("components/wire/*.proto"))
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-Imotet/components/wire={ROOT / 'components/wire'}",
            *(f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")),
            *(f"motet/components/wire/{proto.name}" for proto in protos),
        ],
        check=True,
        cwd=tmp_path,
    )
    made = {path.name: path.read_text() for path in tmp_path.rglob("*_pb2*")}
    kept = {path.name: path.read_text() for path in ROOT.glob("components/wire/*_pb2*")}
    assert made == kept
