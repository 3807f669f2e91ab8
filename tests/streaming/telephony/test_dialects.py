"""Each carrier's messages, in the shapes of its own documentation, as one set of values."""

from __future__ import annotations

import pytest

from motet.components.errors import BadInput
from motet.streaming.telephony.dialects import (
    DIALECTS,
    Heard,
    Played,
    Pressed,
    Started,
    Stopped,
    dialect,
)

STARTS = {
    "twilio": {
        "event": "start",
        "sequenceNumber": "1",
        "streamSid": "MZ1",
        "start": {
            "accountSid": "AC1",
            "streamSid": "MZ1",
            "callSid": "CA1",
            "tracks": ["inbound"],
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
            "customParameters": {"voice": "heart"},
        },
    },
    "telnyx": {
        "event": "start",
        "sequence_number": "1",
        "stream_id": "MZ1",
        "start": {
            "user_id": "U1",
            "call_control_id": "CA1",
            "client_state": "aGF2ZSBhIG5pY2UgZGF5ID1d",
            "custom_parameters": {"voice": "heart"},
            "media_format": {"encoding": "PCMU", "sample_rate": 8000, "channels": 1},
        },
    },
    "plivo": {
        "event": "start",
        "sequenceNumber": 1,
        "start": {
            "callId": "CA1",
            "streamId": "MZ1",
            "accountId": "MA1",
            "tracks": ["inbound"],
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000},
        },
        "extra_headers": "voice=heart;other=a=b",
    },
    "exotel": {
        "event": "start",
        "sequence_number": "1",
        "stream_sid": "MZ1",
        "start": {
            "stream_sid": "MZ1",
            "call_sid": "CA1",
            "account_sid": "AC1",
            "from": "+919876543210",
            "to": "+918047491899",
            "custom_parameters": {"voice": "heart"},
            "media_format": {"encoding": "audio/x-raw", "sample_rate": "8000", "bit_rate": "16"},
        },
    },
}


@pytest.mark.parametrize("name", list(DIALECTS))
def test_start_of_every_carrier(name: str) -> None:
    started = dialect(name).parse(STARTS[name])
    assert isinstance(started, Started)
    assert (started.stream_id, started.call_id, started.rate_hz) == ("MZ1", "CA1", 8000)
    assert started.encoding == ("l16" if name == "exotel" else "pcmu")
    assert started.parameters["voice"] == "heart"


@pytest.mark.parametrize("name", list(DIALECTS))
def test_media_dtmf_and_stop_of_every_carrier(name: str) -> None:
    spoken = dialect(name)
    media = {"event": "media", "media": {"chunk": "2", "timestamp": "20", "payload": "fn5+"}}
    assert spoken.parse(media) == Heard("fn5+", 2)
    assert spoken.parse({"event": "dtmf", "dtmf": {"digit": "5", "duration": "100"}}) == (
        Pressed("5")
    )
    assert spoken.parse({"event": "stop", "stop": {"callSid": "CA1"}}) == Stopped()


def test_echoed_marks() -> None:
    mark = {"event": "mark", "streamSid": "MZ1", "sequenceNumber": "4", "mark": {"name": "m7"}}
    assert dialect("twilio").parse(mark) == Played("m7")
    echo = {"event": "playedStream", "streamId": "MZ1", "name": "m7"}
    assert dialect("plivo").parse(echo) == Played("m7")


def test_what_goes_out_in_each_spelling() -> None:
    expected = {
        "twilio": (
            {"event": "media", "streamSid": "MZ1", "media": {"payload": "AA=="}},
            {"event": "mark", "streamSid": "MZ1", "mark": {"name": "m1"}},
            {"event": "clear", "streamSid": "MZ1"},
        ),
        "telnyx": (
            {"event": "media", "media": {"payload": "AA=="}},
            {"event": "mark", "mark": {"name": "m1"}},
            {"event": "clear"},
        ),
        "plivo": (
            {
                "event": "playAudio",
                "media": {
                    "contentType": "audio/x-mulaw",
                    "sampleRate": 8000,
                    "payload": "AA==",
                },
            },
            {"event": "checkpoint", "streamId": "MZ1", "name": "m1"},
            {"event": "clearAudio", "streamId": "MZ1"},
        ),
        "exotel": (
            {"event": "media", "stream_sid": "MZ1", "media": {"payload": "AA=="}},
            {"event": "mark", "stream_sid": "MZ1", "mark": {"name": "m1"}},
            {"event": "clear", "stream_sid": "MZ1"},
        ),
    }
    for name, spoken in DIALECTS.items():
        started = spoken.parse(STARTS[name])
        assert isinstance(started, Started)
        media = spoken.media("MZ1", "AA==", started)
        assert (media, spoken.mark("MZ1", "m1"), spoken.clear("MZ1")) == expected[name]


def test_the_callers_own_echo_is_not_heard() -> None:
    media = {"event": "media", "media": {"track": "outbound", "chunk": "2", "payload": "fn5+"}}
    assert dialect("twilio").parse(media) is None


@pytest.mark.parametrize(
    "message",
    [
        {"event": "connected", "protocol": "Call", "version": "1.0.0"},
        {"event": "clearedAudio", "sequenceNumber": 9, "streamId": "MZ1"},
        {"event": "something new"},
    ],
)
def test_messages_that_ask_for_nothing(message: dict[str, object]) -> None:
    assert dialect("plivo").parse(message) is None


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({}, "without an event"),
        ({"event": "media"}, "object 'media'"),
        ({"event": "media", "media": "x"}, "object 'media'"),
        ({"event": "media", "media": {}}, "payload is None"),
        ({"event": "media", "media": {"payload": "", "chunk": "two"}}, "chunk is 'two'"),
        ({"event": "start", "start": {}}, "without streamSid"),
        ({"event": "dtmf", "dtmf": {"digit": None}}, "digit is None"),
        (
            {
                "event": "start",
                "start": {"streamSid": "MZ1", "mediaFormat": {"encoding": "OPUS"}},
            },
            "'opus'",
        ),
        (
            {
                "event": "start",
                "start": {"streamSid": "MZ1", "mediaFormat": {"sampleRate": "16000"}},
            },
            "pcmu at 16000 Hz; possible: 8000",
        ),
    ],
)
def test_what_cannot_be_understood_is_named(message: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        dialect("twilio").parse(message)


def test_unknown_carrier_names_the_known() -> None:
    with pytest.raises(BadInput, match="did you mean 'twilio'"):
        dialect("twillio")
