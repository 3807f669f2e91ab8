"""The parts of long-file transcription that need no model: cutting, order, checks, stitching."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.components.asr.file_checks import CheckRules, Judged, count_words, faults, is_silence
from motet.components.asr.file_chunks import Chunk, CutRules, Cutter
from motet.components.asr.file_language import LanguageVote
from motet.components.asr.file_schedule import Schedule
from motet.components.asr.file_split import halves
from motet.components.asr.file_stitch import cues, join, place_words, sentences
from motet.components.asr.file_words import hold_to_speech, split_words, words_of
from motet.components.frames import Word
from motet.components.silero import WINDOW, State

RATE_HZ = 16_000


class LoudnessVad:
    """Calls loud windows speech, for cutting without a model."""

    def scan(self, samples, state=None):
        padded = np.pad(samples, (0, -len(samples) % WINDOW)).astype(np.float32)
        loud = np.abs(padded.reshape(-1, WINDOW)).mean(axis=1) > 500
        return loud.astype(np.float32), state or State.fresh()


def sound(*pieces: tuple[float, bool]) -> np.ndarray:
    """Seconds of noise (True) and near silence (False)."""
    rng = np.random.default_rng(0)
    parts = [
        (rng.normal(size=int(length * RATE_HZ)) * (3000 if loud else 10)).astype(np.int16)
        for length, loud in pieces
    ]
    return np.concatenate(parts)


def cut(pcm: np.ndarray, rules: CutRules, step: int = RATE_HZ) -> list[Chunk]:
    cutter = Cutter(LoudnessVad(), rules)
    chunks = [
        chunk for at in range(0, len(pcm), step) for chunk in cutter.push(pcm[at : at + step])
    ]
    return chunks + cutter.push(pcm[:0], last=True)


pieces = st.lists(
    st.tuples(st.floats(0.3, 6.0), st.floats(0.05, 3.0)), min_size=1, max_size=12
).map(lambda pairs: [piece for on, off in pairs for piece in ((on, True), (off, False))])


@settings(max_examples=30, deadline=None)
@given(pieces, st.integers(700, 40_000))
def test_chunks_hold_all_speech_in_order_and_within_bounds(parts, step):
    pcm, rules = sound(*parts), CutRules(longest_s=8.0)
    chunks = cut(pcm, rules, step)
    end = 0
    heard = np.zeros(len(pcm), bool)
    for chunk in chunks:
        assert chunk.start >= end
        end = chunk.start + len(chunk.pcm)
        assert chunk.duration_s <= rules.longest_s + 3 * rules.pad_s
        assert np.array_equal(chunk.pcm, pcm[chunk.start : end]), "the time map is linear"
        heard[chunk.start : end] = True
    loud = np.abs(LoudnessVad().scan(pcm)[0])
    for window in np.flatnonzero(loud):
        assert heard[window * WINDOW : (window + 1) * WINDOW].all(), "speech was dropped"
    assert [chunk.key for chunk in cut(pcm, rules, 16_000)] == [chunk.key for chunk in chunks]


def test_cuts_fall_into_pauses():
    pcm = sound(*[piece for _ in range(12) for piece in ((2.2, True), (0.4, False))])
    inner = [
        place
        for chunk in cut(pcm, CutRules(longest_s=8.0))
        for place in (chunk.start, chunk.start + len(chunk.pcm) - 1)
        if 0 < place < len(pcm) - 1
    ]
    assert inner
    for place in inner:
        assert np.abs(pcm[max(0, place - 50) : place + 50]).mean() < 100


def test_a_long_pause_always_parts_chunks_and_is_left_out():
    chunks = cut(sound((2, True), (35, False), (2, True)), CutRules())
    assert len(chunks) == 2
    assert chunks[1].start_s == pytest.approx(37, abs=0.3)
    assert sum(chunk.duration_s for chunk in chunks) < 6


def test_speech_without_a_pause_is_cut_where_it_is_quietest():
    pcm = sound((30, True))
    pcm[int(12.5 * RATE_HZ) : int(12.6 * RATE_HZ)] //= 3
    chunks = cut(pcm, CutRules(longest_s=15))
    assert chunks[0].start_s + chunks[0].duration_s == pytest.approx(12.55, abs=0.1)


def test_the_cutter_keeps_little():
    cutter = Cutter(LoudnessVad(), CutRules(longest_s=10))
    for _ in range(60):
        cutter.push(sound((3.5, True), (0.3, False)))
        assert len(cutter._pcm) < 25 * RATE_HZ


def chunk_of(seconds: float, start_s: float = 0) -> Chunk:
    return Chunk(0, int(start_s * RATE_HZ), np.zeros(int(seconds * RATE_HZ), np.int16), seconds)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.5, 15), min_size=1, max_size=40), st.integers(1, 8), st.randoms())
def test_results_leave_in_order_whatever_finishes_first(lengths, size, random):
    schedule: Schedule[int] = Schedule()
    for number, length in enumerate(lengths):
        schedule.add(chunk_of(length, number))
    taken, left = [], []
    while schedule.outstanding:
        batch = schedule.take(size)
        if batch:
            assert len(batch) <= size
            taken.append(batch)
        if taken and (not batch or random.random() < 0.5):
            for number, chunk in taken.pop(random.randrange(len(taken))):
                schedule.finish(number, chunk, number)
        left += [result for _, result in schedule.leave()]
    assert left == list(range(len(lengths)))


def test_batches_hold_the_longest_waiting_and_its_like():
    schedule: Schedule[int] = Schedule()
    for length in (5, 14, 5.2, 13, 4.9, 1):
        schedule.add(chunk_of(length))
    assert [number for number, _ in schedule.take(3)] == [0, 2, 4]
    assert [number for number, _ in schedule.take(3)] == [1, 3, 5]


SAID = "It was the best of times, it was the worst of times, it was the age of wisdom"


@pytest.mark.parametrize(
    ("judged", "fault"),
    [
        (Judged("and so on " * 40, -0.2, 0.0, 15), "repetition"),
        (Judged("The ship sailed on to the The ship sailed on", -0.2, 0, 4), "repetition"),
        (Judged(SAID, -1.4, 0.0, 6), "low_confidence"),
        (Judged("It was the best.", -0.1, 0.0, 14), "too_few_words"),
        (Judged("", -0.1, 0.0, 9), "too_few_words"),
        (Judged(SAID, -0.1, 0.0, 1.5), "too_many_words"),
        (Judged(SAID, -0.1, 0.0, 6, cut_off=True), "cut_off"),
    ],
)
def test_each_fault_is_seen(judged, fault):
    assert fault in faults(judged, CheckRules())


@pytest.mark.parametrize(
    "judged",
    [
        Judged(SAID, -0.3, 0.0, 6),
        Judged("今日はとても良い天気ですね散歩に行きましょう", -0.3, 0.0, 5),
        Judged("Yes.", -0.3, 0.0, 0.4),
    ],
)
def test_good_text_passes(judged):
    assert faults(judged, CheckRules()) == ()


def test_words_are_counted_in_every_script():
    assert count_words("one two three") == 3
    assert count_words("今日は良い天気") == pytest.approx(3.5)
    assert count_words("สวัสดีครับ") > 2


def test_what_is_invented_over_silence_is_seen():
    rules = CheckRules()
    assert is_silence(Judged("Thank you.", -0.5, 0.8, 0.3), rules)
    assert is_silence(Judged(SAID, -1.5, 0.9, 3), rules)
    assert is_silence(Judged(" [Music]", -0.1, 0.1, 3), rules)
    assert not is_silence(Judged("Thank you.", -0.2, 0.05, 0.8), rules)
    assert not is_silence(Judged(SAID, -0.2, 0.9, 6), rules)


times = st.lists(st.tuples(st.floats(-2, 40), st.floats(-2, 40)), max_size=30)


@given(times, st.floats(0, 10), st.floats(0, 20), st.floats(0, 15))
def test_placed_words_never_go_back_and_stay_inside(spans, start_s, length_s, floor_s):
    words = [Word(" w", low, high) for low, high in spans]
    end_s = max(start_s + length_s, floor_s)
    placed = place_words(words, start_s, end_s, floor_s)
    last_s = max(start_s, floor_s)
    for word in placed:
        assert last_s - 0.002 <= word.start_s <= word.end_s <= end_s + 0.002
        last_s = word.end_s
    assert len(placed) == len(words)


def said(text: str, each_s: float = 0.4) -> list[Word]:
    parts = text.split(" ")
    return [
        Word((" " if n else "") + part, n * each_s, n * each_s + 0.35)
        for n, part in enumerate(parts)
    ]


def test_segments_are_sentences():
    text = 'He said "no." She left at 3.5 km. Fine.'
    assert [join(group) for group in sentences(said(text))] == [
        'He said "no."',
        "She left at 3.5 km.",
        "Fine.",
    ]


def test_a_pause_parts_segments_and_none_gets_too_long():
    words = said("and " * 100)
    words[50:] = [Word(w.text, w.start_s + 5, w.end_s + 5) for w in words[50:]]
    groups = sentences(words)
    assert all(group[-1].end_s - group[0].start_s <= 15.1 for group in groups)
    assert any(group[0].start_s == words[50].start_s for group in groups)
    assert [word for group in groups for word in group] == words


def test_cues_fit_two_lines():
    for group in cues(said("extraordinarily long words in a sentence " * 12)):
        assert len(join(group)) <= 84


class Letters:
    """Tokens whose text is given; multi-byte characters are split over two tokens."""

    table = (" Hello", ",", " “", "world", ".”", "\ufffd", "é", " a")

    def decode(self, ids):
        text = "".join(self.table[number] for number in ids)
        return text.replace("\ufffdé", "é")


def test_words_join_to_the_text_and_keep_their_marks():
    ids = [0, 1, 2, 3, 4, 7, 5, 6]
    words = split_words(Letters(), ids, "en")
    assert [text for text, _ in words] == [" Hello,", " “world.”", " aé"]
    assert sum(count for _, count in words) == len(ids)


def test_words_of_scripts_without_spaces_stand_alone():
    table = SimpleNamespace(decode=lambda ids: "".join("今日は。"[number] for number in ids))
    words = split_words(table, [0, 1, 2, 3], "ja")
    assert [text for text, _ in words] == ["今", "日", "は。"]


def test_times_come_from_the_alignment():
    table = SimpleNamespace(decode=lambda ids: "".join((" one", " two")[number] for number in ids))
    aligned = SimpleNamespace(
        alignments=[(0, 10), (0, 11), (1, 30), (2, 60)], text_token_probs=[0.9, 0.8]
    )
    first, second = words_of(table, [0, 1], aligned, "en", 3.0)
    assert (first.start_s, first.end_s, second.end_s) == (0.2, 0.6, 1.2)
    assert second.probability == pytest.approx(0.8)


def test_words_are_held_to_speech():
    spans = [(1.0, 2.0), (4.0, 5.0)]
    words = [Word(" a", 0.2, 1.5), Word(" b", 1.6, 3.9), Word(" c", 2.6, 4.8), Word(" d", 2.5, 2.9)]
    held = [(round(w.start_s, 2), round(w.end_s, 2)) for w in hold_to_speech(words, spans)]
    assert held == [(0.9, 1.5), (1.6, 2.1), (3.9, 4.8), (2.5, 2.9)]


def test_halves_join_to_the_chunk_and_meet_in_a_pause():
    pcm = sound((3, True), (0.5, False), (3.5, True))
    chunk = Chunk(1, 500, pcm, 6.5, ((0, 3 * RATE_HZ), (int(3.5 * RATE_HZ), 7 * RATE_HZ)))
    first, second = halves(chunk)
    assert np.array_equal(np.concatenate([first.pcm, second.pcm]), pcm)
    assert first.start == 500
    assert second.start == 500 + len(first.pcm)
    assert 3.0 < first.duration_s < 3.5
    assert first.speech_s + second.speech_s == pytest.approx(6.5)
    assert halves(chunk_of(3)) != []
    assert len(halves(chunk_of(3))) == 1


def test_no_single_stretch_decides_the_language():
    vote = LanguageVote(None)
    first = vote.choose([{"nn": 0.4, "de": 0.35, "en": 0.25}], [4.0])
    assert first == ["nn"]
    rest = vote.choose([{"de": 0.95}, {"de": 0.9}, {"nn": 0.5, "de": 0.5}], [12, 12, 12])
    assert rest == ["de", "de", "de"]
    assert vote.language == "de"


def test_a_chunk_that_is_sure_keeps_its_own_language():
    vote = LanguageVote(None)
    assert vote.choose([{"en": 0.99}] * 5 + [{"fr": 0.97}], [10] * 6)[-1] == "fr"
    assert vote.choose([{"fr": 0.99}], [1.0]) == ["en"]


def test_languages_can_be_limited_or_settled():
    assert LanguageVote(None, ["de", "fr"]).choose([{"en": 0.8, "fr": 0.2}], [9]) == ["fr"]
    assert LanguageVote("de").language == "de"
