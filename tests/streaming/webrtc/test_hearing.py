"""A caller's track: its rate, its channels, and silence for what doesn't come."""

from __future__ import annotations

import numpy as np

from motet.streaming.webrtc.hearing import MAX_GAP_S, QUIET_S, TRACK_HZ, Hearing

PIECE = TRACK_HZ // 50


def tone(seconds: float) -> np.ndarray:
    at = np.arange(int(seconds * TRACK_HZ)) / TRACK_HZ
    return (np.sin(2 * np.pi * 300 * at) * 8000).astype(np.int16)[:, None]


def pieces(pcm: np.ndarray) -> list[tuple[int, np.ndarray]]:
    return [(start, pcm[start : start + PIECE]) for start in range(0, len(pcm), PIECE)]


def test_both_channels_become_one_signal_at_16_khz() -> None:
    hearing, pcm = Hearing(), tone(1.0)
    heard = [
        hearing.push(np.concatenate([piece, piece], axis=1), start, start / TRACK_HZ)
        for start, piece in pieces(pcm)
    ]
    signal = np.concatenate(heard)
    assert 15_000 < len(signal) <= 16_000
    at = np.arange(len(signal)) / 16_000
    expected = np.sin(2 * np.pi * 300 * at) * 8000
    assert np.abs(signal[500:-500] - expected[500:-500]).max() < 100


def test_lost_packets_become_silence_of_their_length() -> None:
    whole, holed = Hearing(), Hearing()
    all_of_it = pieces(tone(1.0))
    expected = np.concatenate([whole.push(pcm, at, 0.0) for at, pcm in all_of_it])
    kept = all_of_it[:20] + all_of_it[25:]
    got = np.concatenate([holed.push(pcm, at, 0.0) for at, pcm in kept])
    assert len(got) == len(expected)
    assert np.abs(got[6500:7900]).max() < 50
    assert np.abs(got[9000:].astype(int) - expected[9000:]).max() <= 2


def test_a_sender_that_starts_to_count_anew_makes_no_silence() -> None:
    hearing = Hearing()
    hearing.push(tone(0.02), 0, 0.0)
    far = int((MAX_GAP_S + 1) * TRACK_HZ)
    assert len(hearing.push(tone(0.02), far, 0.02)) <= 640
    assert len(hearing.push(tone(0.02), 0, 0.04)) <= 640


def test_a_caller_who_stops_to_send_is_silent_in_real_time() -> None:
    hearing = Hearing()
    assert hearing.tick(10.0) is None, "nothing was ever sent"
    for start, piece in pieces(tone(0.5)):
        hearing.push(piece, start, 0.0)
    assert hearing.tick(QUIET_S - 0.01) is None
    filled = [hearing.tick(now_s) for now_s in (QUIET_S, 0.75, 1.0, 2.0)]
    size = sum(len(silence) for silence in filled if silence is not None)
    assert 31_000 < size < 33_000
    back = hearing.push(tone(0.02), TRACK_HZ // 2 + 2 * TRACK_HZ, 2.0)
    assert len(back) <= 640, "the silence was put in already"
