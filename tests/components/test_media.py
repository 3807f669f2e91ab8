"""Reading odd files: every fault class of batch reading, on files built here."""

from __future__ import annotations

import struct
import tracemalloc
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from motet.components.errors import BadInput
from motet.components.media import probe
from motet.components.media_mix import Mixer
from motet.components.media_read import MediaReader

from ..support.mediafiles import encode, read, seconds, tone, wav


@pytest.mark.parametrize(
    ("codec", "container", "rate_hz", "layout"),
    [
        ("mp3", "mp3", 44_100, "mono"),
        ("flac", "flac", 96_000, "stereo"),
        ("aac", "mp4", 48_000, "5.1"),
        ("libopus", "webm", 48_000, "stereo"),
        ("libopus", "ogg", 24_000, "mono"),
        ("pcm_mulaw", "wav", 8_000, "mono"),
        ("pcm_s24le", "wav", 192_000, "7.1"),
        ("pcm_f32be", "aiff", 44_100, "stereo"),
    ],
)
def test_every_codec_rate_and_layout_becomes_16_khz(tmp_path, codec, container, rate_hz, layout):
    channels = av.AudioLayout(layout).nb_channels
    pcm = np.stack([tone(3, rate_hz)] * channels)
    data = encode(pcm, rate_hz, codec, container, layout)
    got, reader = read(tmp_path / "named.wav", data)
    assert seconds(got) == pytest.approx(3, abs=0.05)
    assert reader.info.channels == channels
    assert np.abs(got[0, 8000:40_000]).max() == pytest.approx(8000, rel=0.15)
    spectrum = np.abs(np.fft.rfft(got[0, 8000:40_000]))
    assert np.argmax(spectrum) == pytest.approx(440 * 2, abs=3)


def test_a_bad_stretch_costs_only_itself(tmp_path):
    data = encode(tone(12), 44_100, "mp3", "mp3")
    half = len(data) // 2
    noise = np.random.default_rng(1).bytes(3000)
    got, reader = read(tmp_path / "a.mp3", data[:half] + noise + data[half + 3000 :])
    assert seconds(got) > 11.4
    assert reader.report.bad_packets > 0


def test_undecodable_packets_leave_silence_so_that_later_times_hold(tmp_path):
    data = encode(np.concatenate([tone(6), tone(6, hz=880)]), 44_100, "aac", "mp4")
    half = len(data) // 4
    noise = np.random.default_rng(1).bytes(3000)
    got, reader = read(tmp_path / "a.m4a", data[:half] + noise + data[half + 3000 :])
    assert seconds(got) == pytest.approx(12, abs=0.05)
    assert reader.report.bad_packets > 0
    assert reader.report.filled_s > 0
    late = np.abs(np.fft.rfft(got[0, 6 * 16_000 + 4000 : 7 * 16_000 + 4000]))
    assert np.argmax(late) == pytest.approx(880, abs=3)


@pytest.mark.parametrize(
    ("codec", "container"),
    [("mp3", "mp3"), ("flac", "flac"), ("libopus", "ogg"), ("aac", "mp4"), ("pcm_s16le", "wav")],
)
def test_concatenated_files_are_read_whole(tmp_path, codec, container):
    data = encode(tone(5, 48_000), 48_000, codec, container)
    got, reader = read(tmp_path / "two", data + data)
    assert seconds(got) == pytest.approx(10, abs=0.1)
    assert reader.report.truncated_s == 0


def test_concatenated_files_may_change_rate_and_channels(tmp_path):
    first = wav(tone(2, 8000), 8000)
    second = wav(np.stack([tone(2, 44_100)] * 2), 44_100)
    got, _ = read(tmp_path / "two.wav", first + second)
    assert seconds(got) == pytest.approx(4, abs=0.01)
    assert np.abs(got[0, 50_000:]).max() == pytest.approx(8000, rel=0.02)


def test_antiphase_stereo_is_not_silence(tmp_path):
    pcm = tone(2, 16_000)
    got, _ = read(tmp_path / "a.wav", wav(np.stack([pcm, -pcm])))
    assert np.abs(got).max() == pytest.approx(8000, rel=0.01)


def test_one_sided_stereo_keeps_its_level(tmp_path):
    pcm = tone(2, 16_000)
    got, _ = read(tmp_path / "a.wav", wav(np.stack([np.zeros_like(pcm), pcm])))
    assert np.abs(got).max() == pytest.approx(8000, rel=0.01)


def test_speakers_that_alternate_between_sides_are_both_heard():
    pcm = (tone(1, 16_000) / 32768).astype(np.float32)
    quiet = np.zeros_like(pcm)
    mixer = Mixer(["FL", "FR"])
    turns = [np.stack([pcm, quiet]), np.stack([quiet, pcm])] * 8
    for block in turns[:14]:
        mixer.mix(block)
    for block in turns[14:]:
        level = np.abs(mixer.mix(block)[1000:]).max()
        assert level >= 0.49 * np.abs(pcm).max()


def test_channels_can_be_read_separately(tmp_path):
    left, right = tone(2, 16_000), tone(2, 16_000, hz=880)
    got, reader = read(tmp_path / "call.wav", wav(np.stack([left, right])), split=True)
    assert reader.tracks == 2
    assert np.array_equal(got[0], left)
    assert np.array_equal(got[1], right)


def test_truncation_is_reported(tmp_path):
    whole = wav(tone(20, 16_000))
    got, reader = read(tmp_path / "a.wav", whole[: len(whole) * 5 // 16])
    assert seconds(got) == pytest.approx(6.25, abs=0.01)
    assert reader.report.truncated_s == pytest.approx(13.75, abs=0.05)


@pytest.mark.parametrize("riff", [True, False])
@pytest.mark.parametrize("said_s", [1, 3600])
def test_a_wav_header_that_lies_costs_no_sound(tmp_path, said_s, riff):
    data = bytearray(wav(tone(20, 16_000)))
    data[40:44] = struct.pack("<I", said_s * 32_000)
    if riff:
        data[4:8] = struct.pack("<I", said_s * 32_000 + 36)
    got, reader = read(tmp_path / "a.wav", bytes(data))
    assert seconds(got) == pytest.approx(20, abs=0.01)
    assert (reader.report.truncated_s > 3000) == (said_s == 3600 and riff)


@pytest.mark.parametrize("last", [b"LIST\x04\0\0\0INFO", b"id3 \x01\0\0\0x\0", b"\0", b"junk"])
def test_what_stands_behind_a_wavs_sound_is_not_heard(tmp_path, last):
    got, _ = read(tmp_path / "a.wav", wav(tone(2, 16_000)) + last)
    assert got.shape[1] == 2 * 16_000


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF])
def test_live_wav_headers_without_a_size_are_read_to_the_end(tmp_path, size):
    data = bytearray(wav(tone(4, 16_000)))
    data[40:44] = struct.pack("<I", size)
    got, _ = read(tmp_path / "a.wav", bytes(data))
    assert seconds(got) == pytest.approx(4, abs=0.01)


def test_float_files_with_nan_and_inf_cost_only_those_samples(tmp_path):
    pcm = (tone(2, 16_000) / 32768).astype("<f4")
    pcm[1000:1010], pcm[2000] = np.nan, np.inf
    fmt = struct.pack("<HHIIHH", 3, 1, 16_000, 64_000, 4, 32)
    body = b"fmt " + struct.pack("<I", len(fmt)) + fmt
    body += b"data" + struct.pack("<I", pcm.nbytes) + pcm.tobytes()
    got, _ = read(tmp_path / "a.wav", b"RIFF" + struct.pack("<I", len(body) + 4) + b"WAVE" + body)
    assert np.abs(got).max() <= 8001
    assert not got[0, 1000:1010].any()


def test_the_audio_of_a_video_is_read_with_its_delay(tmp_path):
    path = tmp_path / "a.mkv"
    with av.open(str(path), "w") as file:
        video = file.add_stream("mpeg4", rate=10)
        video.width = video.height = 32
        video.pix_fmt = "yuv420p"
        sound = file.add_stream("flac", rate=16_000, layout="mono")
        for index in range(40):
            picture = av.VideoFrame(32, 32, "yuv420p")
            picture.pts, picture.time_base = index, Fraction(1, 10)
            for packet in video.encode(picture):
                file.mux(packet)
        frame = av.AudioFrame.from_ndarray(tone(3, 16_000)[None], format="s16", layout="mono")
        frame.rate, frame.pts, frame.time_base = 16_000, 8000, Fraction(1, 16_000)
        for packet in [*video.encode(None), *sound.encode(frame), *sound.encode(None)]:
            file.mux(packet)
    reader = MediaReader(path)
    got = np.concatenate(list(reader), axis=1)
    assert probe(path).video
    assert seconds(got) == pytest.approx(3.5, abs=0.01)
    assert not got[0, :7900].any()


def silent_film(path: Path) -> None:
    with av.open(str(path), "w", format="mp4") as file:
        video = file.add_stream("mpeg4", rate=10)
        video.width = video.height = 32
        video.pix_fmt = "yuv420p"
        for packet in [*video.encode(av.VideoFrame(32, 32, "yuv420p")), *video.encode(None)]:
            file.mux(packet)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "can't be read"),
        (np.random.default_rng(2).bytes(5000), "can't be read"),
        (b"just a text that somebody called .mp3\n" * 50, "can't be read"),
        (b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/passwd\n", "can't be read"),
        (b"ffconcat version 1.0\nfile /etc/passwd\n", "can't be read"),
    ],
    ids=["empty", "header only", "garbage", "text", "playlist", "concat"],
)
def test_what_is_no_media_is_bad_input(tmp_path, data, said):
    path = tmp_path / "song.mp3"
    path.write_bytes(data)
    with pytest.raises(BadInput, match=said):
        list(MediaReader(path))


def test_a_wav_without_samples_is_bad_input(tmp_path):
    (tmp_path / "a.wav").write_bytes(wav(np.zeros(0, np.int16)))
    with pytest.raises(BadInput, match="no audio could be decoded"):
        list(MediaReader(tmp_path / "a.wav"))


def test_a_film_without_sound_is_bad_input_that_says_what_it_holds(tmp_path):
    silent_film(tmp_path / "a.mp4")
    with pytest.raises(BadInput, match=r"no audio track; it holds video \(mpeg4\)"):
        probe(tmp_path / "a.mp4", "holiday.mp4")


def test_a_missing_file_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="doesn't exist"):
        probe(tmp_path / "none.wav")


def test_longer_than_allowed_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="longer than"):
        read(tmp_path / "a.wav", wav(tone(4, 16_000)), limit_s=2.0)


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(wav(np.tile(tone(10, 16_000), 60)))
    tracemalloc.start()
    try:
        count = sum(block.shape[1] for block in MediaReader(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 600 * 16_000
    assert peak < 4_000_000
