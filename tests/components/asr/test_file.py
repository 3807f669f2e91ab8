"""Whole files to text, with a real model: odd files, pauses, silence, resuming, cancelling."""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
import wave
from dataclasses import replace

import numpy as np
import pytest

from motet.components.asr.checks import normalized
from motet.components.asr.file import FileAsr
from motet.components.asr.file_decode import ChunkDecoder, ChunkText
from motet.components.base import Context, Resources, Setup
from motet.components.errors import BadInput
from motet.components.frames import Data, MediaFile, Progress, Segment
from motet.components.models import is_installed
from motet.components.transcription import segment_from

pytestmark = [
    pytest.mark.skipif(not is_installed("whisper-tiny-en"), reason="the weights aren't installed"),
    pytest.mark.timeout(120),
]

RATE_HZ = 16_000
FOX = "The quick brown fox jumps over the lazy dog."
SEA = "The ship sailed slowly across the ocean last night."
STATION = "We will meet you at the train station after lunch."
DOOR = "She reads the newspaper every morning with her coffee."


@pytest.fixture(scope="module")
def asr():
    setup = Setup("asr", "whisper-tiny-en", {"beam_size": 1}, Resources(cpus=2))
    component = FileAsr(setup)
    asyncio.run(component.load())
    yield component
    asyncio.run(component.close())


def wav(*tracks: np.ndarray) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(len(tracks))
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes(np.ascontiguousarray(np.stack(tracks, axis=1)).tobytes())
    return out.getvalue()


async def frames(*given):
    for frame in given:
        yield frame


async def ask(asr, path, *known, **options):
    given = frames(MediaFile(str(path), path.name, options), *known)
    return [frame async for frame in asr.run(given, Context())]


def use(asr, decoder, monkeypatch) -> None:
    """Decode with another decoder on the same engine."""
    other = decoder(asr._models.engine, asr._options.checking, asr._options.batch_frames)
    monkeypatch.setattr(asr, "_models", replace(asr._models, decoder=other))


def transcript(got) -> dict:
    assert isinstance(got[-1], Data)
    assert got[-1].value["kind"] == "transcript"
    return got[-1].value


def times_are_sound(result: dict) -> None:
    segments = [segment_from(shape) for shape in result["segments"]]
    words = [word for segment in segments for word in segment.words]
    last_s = 0.0
    for word in words:
        assert last_s <= word.start_s <= word.end_s <= result["duration"] + 1e-6
        last_s = word.end_s
    for segment in segments:
        assert segment.start_s == segment.words[0].start_s
        assert segment.end_s == segment.words[-1].end_s


async def test_words_keep_their_times_across_a_long_silence(asr, say, tmp_path, quiet):
    fox, sea = say(FOX), say(SEA)
    pcm = np.concatenate([quiet(1500), fox, quiet(35_000), sea, quiet(700)])
    (tmp_path / "a.wav").write_bytes(wav(pcm))
    got = await ask(asr, tmp_path / "a.wav")
    result = transcript(got)
    assert normalized(result["text"]) == normalized(f"{FOX} {SEA}")
    times_are_sound(result)
    words = [word for shape in result["segments"] for word in shape["words"]]
    assert words[0]["start"] == pytest.approx(1.55, abs=0.3)
    ship_s = 1.5 + len(fox) / RATE_HZ + 35
    assert words[9]["start"] == pytest.approx(ship_s, abs=0.3)
    assert words[8]["end"] < ship_s - 34
    assert [shape["text"] for shape in result["segments"]] == [
        segment.text for segment in got if isinstance(segment, Segment)
    ]
    progress = [frame.done for frame in got if isinstance(frame, Progress)]
    assert progress == sorted(progress)
    assert progress[-1] == pytest.approx(len(pcm) / RATE_HZ)


async def test_channels_become_speakers(asr, say, tmp_path, quiet):
    fox, sea = say(FOX), say(SEA)
    left = np.concatenate([fox, quiet(len(sea) / 16 + 500)])
    right = np.concatenate([quiet(len(fox) / 16 + 500), sea])
    length = min(len(left), len(right))
    (tmp_path / "call.wav").write_bytes(wav(left[:length], right[:length]))
    result = transcript(await ask(asr, tmp_path / "call.wav", channels="separate"))
    spoken = dict.fromkeys(result["speakers"], "")
    for shape in result["segments"]:
        spoken[shape["speaker"]] += f" {shape['text']}"
    assert normalized(spoken["channel 1"]) == normalized(FOX)
    assert normalized(spoken["channel 2"]) == normalized(SEA)
    assert [shape["start"] for shape in result["segments"]] == sorted(
        shape["start"] for shape in result["segments"]
    )


async def test_nothing_is_invented_where_nobody_speaks(asr, tmp_path):
    rng = np.random.default_rng(3)
    time_s = np.arange(12 * RATE_HZ) / RATE_HZ
    sounds = {
        "silence": np.zeros(12 * RATE_HZ),
        "noise": rng.normal(size=12 * RATE_HZ) * 600,
        "tone": np.sin(2 * np.pi * 440 * time_s) * 8000,
        "clicks": (rng.random(12 * RATE_HZ) < 3 / RATE_HZ) * 20_000,
    }
    for name, sound in sounds.items():
        (tmp_path / f"{name}.wav").write_bytes(wav(sound.astype(np.int16)))
        result = transcript(await ask(asr, tmp_path / f"{name}.wav"))
        assert result["text"] == "", name
        assert result["duration"] == 12.0


async def test_kept_chunks_are_not_decoded_again(asr, say, tmp_path, quiet, monkeypatch):
    pcm = np.concatenate([piece for _ in range(3) for piece in (say(FOX), quiet(1500))])
    (tmp_path / "a.wav").write_bytes(wav(pcm))
    first = await ask(asr, tmp_path / "a.wav")
    chunks = [f for f in first if isinstance(f, Data) and f.value["kind"] == "chunk"]
    assert len(chunks) == 3
    decoded = []
    decode = ChunkDecoder.decode

    def counting(self, batch, *rest):
        decoded.extend(chunk.key for chunk in batch)
        return decode(self, batch, *rest)

    monkeypatch.setattr(ChunkDecoder, "decode", counting)
    known = [Data({**chunk.value, "kind": "known_chunk"}) for chunk in chunks[:2]]
    again = await ask(asr, tmp_path / "a.wav", *known)
    assert decoded == [chunks[2].value["key"]]
    assert transcript(again)["text"] == transcript(first)["text"]
    kept = [f.value["key"] for f in again if isinstance(f, Data) and f.value["kind"] == "chunk"]
    assert kept == [chunks[2].value["key"]]


async def test_cancelling_ends_within_a_step_and_leaves_nothing(asr, say, tmp_path, quiet):
    pcm = np.concatenate([piece for _ in range(40) for piece in (say(FOX), quiet(1200))])
    (tmp_path / "a.wav").write_bytes(wav(pcm))
    before = asyncio.all_tasks()
    run = asr.run(frames(MediaFile(str(tmp_path / "a.wav"))), Context())
    async for frame in run:
        if isinstance(frame, Segment):
            break
    began_s = time.perf_counter()
    await run.aclose()
    assert time.perf_counter() - began_s < 1.0
    assert asyncio.all_tasks() == before


async def test_the_first_text_comes_before_the_file_is_done(asr, say, tmp_path, quiet):
    pcm = np.concatenate([piece for _ in range(12) for piece in (say(FOX), quiet(1200))])
    (tmp_path / "a.wav").write_bytes(wav(pcm))
    run = asr.run(frames(MediaFile(str(tmp_path / "a.wav"))), Context())
    async with contextlib.aclosing(run):
        async for frame in run:
            if isinstance(frame, Progress):
                break
    assert frame.done < 0.5 * frame.total


async def test_bad_files_and_options_are_bad_input(asr, tmp_path):
    (tmp_path / "empty.mp3").write_bytes(b"")
    with pytest.raises(BadInput, match="empty"):
        await ask(asr, tmp_path / "empty.mp3")
    (tmp_path / "a.wav").write_bytes(wav(np.zeros(16_000, np.int16)))
    with pytest.raises(BadInput, match=r"beams.*known options"):
        await ask(asr, tmp_path / "a.wav", beams=3)
    with pytest.raises(BadInput, match="language 'xx'"):
        await ask(asr, tmp_path / "a.wav", language="xx")


class FewWords(ChunkDecoder):
    """A decoder that ends early on whole chunks, as batched decoding was seen to do."""

    def _read(self, chunk, language, result, ask, limit):
        read = super()._read(chunk, language, result, ask, limit)
        if chunk.duration_s < 8:
            return read
        short = replace(read, text=" The quick.", tokens=read.tokens[:3])
        return replace(short, marks=("too_few_words",))


async def test_a_chunk_that_loses_words_is_cut_smaller_until_it_does_not(
    asr, say, tmp_path, quiet, monkeypatch
):
    told = (FOX, SEA, STATION, DOOR)
    pcm = np.concatenate([piece for text in told for piece in (say(text), quiet(350))])
    (tmp_path / "a.wav").write_bytes(wav(pcm))
    use(asr, FewWords, monkeypatch)
    result = transcript(await ask(asr, tmp_path / "a.wav"))
    assert normalized(result["text"]) == normalized(" ".join(told))
    assert result["checks"]["retried"] >= 1
    assert result["checks"]["marks"] == {}
    times_are_sound(result)


class Hopeless(ChunkDecoder):
    """A decoder that never gets anything right."""

    def decode(self, chunks, ask, vote, stop):
        loop = " and so" * 60
        return [ChunkText(loop, "en", marks=("repetition",), tries=4) for _ in chunks]


async def test_what_fails_every_try_is_marked_and_counted(asr, say, tmp_path, monkeypatch):
    (tmp_path / "a.wav").write_bytes(wav(say(FOX)))
    use(asr, Hopeless, monkeypatch)
    checks = transcript(await ask(asr, tmp_path / "a.wav"))["checks"]
    assert checks["marks"] == {"repetition": 1}
    assert checks["marked"][0]["marks"] == ["repetition"]


async def test_a_damaged_file_costs_only_what_is_damaged(asr, say, tmp_path, quiet):
    import av

    pcm = np.concatenate([say(FOX), quiet(2500), say(SEA)])
    out = io.BytesIO()
    with av.open(out, "w", format="mp3") as file:
        stream = file.add_stream("mp3", rate=RATE_HZ, layout="mono")
        frame = av.AudioFrame.from_ndarray(pcm[None], format="s16p", layout="mono")
        frame.rate = RATE_HZ
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            file.mux(packet)
    data = out.getvalue()
    middle = int(len(data) * (len(say(FOX)) + 1.2 * RATE_HZ) / len(pcm))
    broken = data[:middle] + np.random.default_rng(1).bytes(1500) + data[middle + 1500 :]
    (tmp_path / "a.mp3").write_bytes(broken)
    result = transcript(await ask(asr, tmp_path / "a.mp3"))
    assert normalized(result["text"]) == normalized(f"{FOX} {SEA}")
    assert result["media"]["bad_packets"] > 0


@pytest.mark.parametrize("hint", [{"prompt": "Jon and Geoff"}, {"hotwords": ["Jon", "Geoff"]}])
async def test_prompts_and_hotwords_bias_spelling(asr, say, tmp_path, hint):
    (tmp_path / "a.wav").write_bytes(wav(say("I spoke with Jon and Geoff about the plan.")))
    plain = transcript(await ask(asr, tmp_path / "a.wav"))
    hinted = transcript(await ask(asr, tmp_path / "a.wav", **hint))
    assert plain["text"] == "I spoke with John and Jeff about the plan."
    assert hinted["text"] == "I spoke with Jon and Geoff about the plan."
