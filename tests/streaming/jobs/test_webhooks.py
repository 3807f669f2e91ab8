"""Standard Webhooks: signatures against the reference library, the schedule, the verdicts."""

from __future__ import annotations

import base64
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.components.errors import BadInput
from motet.streaming.jobs.webhooks import (
    SCHEDULE_S,
    headers,
    judge,
    new_secret,
    retry_after_s,
    secret_bytes,
    sign,
    verify,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def verdict(attempt: int, status: int | None, after: str | None = None):
    return judge(attempt, status, after, now=NOW, random=Random(attempt))


@given(st.text(max_size=200), st.text("abc_0", min_size=1, max_size=20))
def test_the_reference_library_accepts_our_signatures(body, message_id):
    reference = pytest.importorskip("standardwebhooks")
    secret = new_secret()
    sent = headers([secret], message_id, int(time.time()), body)
    at = datetime.fromtimestamp(int(sent["webhook-timestamp"]), UTC)
    assert sent["webhook-signature"] == reference.Webhook(secret).sign(message_id, at, body)


def test_the_example_of_the_specification():
    """The key, message and signature that Standard Webhooks' own libraries test with."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = '{"test": 2432232314}'
    signature = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_both_secrets_sign_while_they_are_rotated():
    old, new = new_secret(), new_secret()
    sent = headers([new, old], "msg_1", 1000, "{}")
    assert verify(old, sent, "{}", now_s=1010)
    assert verify(new, sent, "{}", now_s=1010)
    assert not verify(new_secret(), sent, "{}", now_s=1010)


def test_what_is_old_or_changed_is_refused():
    secret = new_secret()
    sent = headers([secret], "msg_1", 1000, "{}")
    assert not verify(secret, sent, "{}", now_s=1400)
    assert not verify(secret, sent, "{ }", now_s=1010)
    assert not verify(secret, {**sent, "webhook-id": "msg_2"}, "{}", now_s=1010)
    assert not verify(secret, {}, "{}", now_s=1010)


@pytest.mark.parametrize(
    "secret", ["whsec_" + base64.b64encode(bytes(20)).decode(), "whsec_!!", "whsec_"]
)
def test_weak_or_broken_secrets_are_refused(secret):
    with pytest.raises(BadInput):
        secret_bytes(secret)


def test_ten_attempts_over_about_three_days():
    assert len(SCHEDULE_S) == 10
    assert 72 < sum(SCHEDULE_S) / 3600 < 80
    waits = [verdict(attempt, 500).wait_s for attempt in range(1, 10)]
    assert all(
        0.9 * due <= wait <= 1.1 * due for wait, due in zip(waits, SCHEDULE_S[1:], strict=True)
    )
    assert verdict(10, 500).state == "failed"


def test_jitter_differs():
    waits = {judge(3, 500, None, now=NOW, random=Random(n)).wait_s for n in range(20)}
    assert len(waits) > 10


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (200, "delivered"),
        (204, "delivered"),
        (301, "pending"),
        (307, "pending"),
        (400, "pending"),
        (404, "pending"),
        (410, "gone"),
        (500, "pending"),
        (None, "pending"),
    ],
)
def test_what_an_answer_means(status, state):
    assert verdict(1, status).state == state


def test_retry_after_is_honoured_up_to_a_day():
    assert verdict(1, 429, "120").wait_s == 120
    assert verdict(1, 503, format_datetime(NOW + timedelta(hours=1))).wait_s == pytest.approx(3600)
    assert verdict(1, 503, "999999999").wait_s == 86_400
    assert verdict(1, 503, "0").wait_s == pytest.approx(5, rel=0.11)
    assert verdict(1, 500, "120").wait_s < 6, "only throttling answers may ask for it"


@pytest.mark.parametrize("value", ["soon", "", "-5", "12.5", "\ud800"])
def test_nonsense_retry_after_is_none(value):
    assert retry_after_s(value, NOW) is None
