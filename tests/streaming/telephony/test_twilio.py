"""Twilio's signatures, by its published example, and the TwiML that answers a call."""

from __future__ import annotations

from xml.etree import ElementTree

from motet.streaming.telephony.twilio import answer, is_signed, public_urls, sign

URL = "https://mycompany.com/myapp.php?foo=1&bar=2"
PARAMS = {
    "CallSid": "CA1234567890ABCDE",
    "Digits": "1234",
    "From": "+14158675309",
    "To": "+18005551212",
    "Caller": "+14158675309",
}


def test_signature_of_the_published_example() -> None:
    assert sign(URL, PARAMS.items(), "12345") == "RSOYDt4T1cUTdK1PDd93/VVr8B8="


def test_a_changed_field_url_or_token_is_not_signed() -> None:
    good = sign(URL, PARAMS.items(), "12345")
    assert is_signed(good, [URL], PARAMS.items(), "12345")
    assert not is_signed(good, [URL], (PARAMS | {"Digits": "1235"}).items(), "12345")
    assert not is_signed(good, ["https://evil.example/"], PARAMS.items(), "12345")
    assert not is_signed(good, [URL], PARAMS.items(), "54321")
    assert not is_signed(None, [URL], PARAMS.items(), "12345")
    assert not is_signed("é", [URL], PARAMS.items(), "12345")


def test_urls_as_the_outside_knows_them() -> None:
    headers = {"host": "phone.example", "x-forwarded-proto": "https"}
    urls = public_urls("ws://10.0.0.7:8000/v1/telephony/twilio", headers)
    assert "wss://phone.example/v1/telephony/twilio" in urls
    assert "https://phone.example/v1/telephony/twilio/" in urls
    assert not any(url.startswith(("ws:", "http:")) for url in urls)


def test_answer_is_valid_xml_whatever_the_parameters_hold() -> None:
    parameters = {"instructions": 'Say "a < b" & <Hangup/>'}
    text = answer("wss://phone.example/v1/telephony/twilio", parameters)
    stream = ElementTree.fromstring(text).find("Connect/Stream")
    assert stream is not None
    assert stream.get("url") == "wss://phone.example/v1/telephony/twilio"
    parameter = stream.find("Parameter")
    assert parameter is not None
    assert parameter.attrib == {"name": "instructions", "value": 'Say "a < b" & <Hangup/>'}
