"""What `spear_ray.audio.decode` takes and what it refuses, byte for byte of the file."""

import struct
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
from datasets import audio_bytes, claiming, speech, tone

from spear_ray import errors
from spear_ray.audio import decode
from spear_ray.config import AudioConfig
from spear_ray.dialogue import SAMPLE_RATE_HZ

LIMITS = AudioConfig()
WAV_HEADER_BYTES = 44
MEBIBYTE = 1 << 20


def decoded(data: bytes, **limits):
    return decode(data, AudioConfig(**limits))


def refused(data: bytes, kind: type[errors.SpearError], **limits) -> str:
    with pytest.raises(errors.RowError) as caught:
        decoded(data, **limits)
    assert type(caught.value) is kind, f"{caught.value.code}: {caught.value}"
    return str(caught.value)


def amplitude_at(samples: np.ndarray, frequency_hz: float) -> float:
    """Amplitude of one frequency in the middle half of samples at 16 kHz, read with a Hann window."""
    middle = samples[len(samples) // 4 : -len(samples) // 4]
    window = np.hanning(len(middle))
    time_s = np.arange(len(middle)) / SAMPLE_RATE_HZ
    return 2 * abs(np.sum(middle * window * np.exp(-2j * np.pi * frequency_hz * time_s))) / window.sum()


def peak_frequency_hz(samples: np.ndarray) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum)) * SAMPLE_RATE_HZ / len(samples)


RATES_HZ = (8_000, 16_000, 22_050, 44_100, 48_000, 96_000, 192_000)
ALLOWED_HZ = {"MP3": (8_000, 16_000, 22_050, 44_100, 48_000), "OPUS": (8_000, 16_000, 48_000)}
FORMATS = (
    ("WAV", "PCM_16"),
    ("WAV", "PCM_24"),
    ("WAV", "FLOAT"),
    ("FLAC", "PCM_16"),
    ("FLAC", "PCM_24"),
    ("OGG", "VORBIS"),
    ("MP3", "MPEG_LAYER_III"),
    ("OGG", "OPUS"),
)
LOSSY = ("VORBIS", "MPEG_LAYER_III", "OPUS")
GOOD = [
    pytest.param(kind, subtype, rate_hz, channels, id=f"{kind}-{subtype}-{rate_hz}-{channels}ch".lower())
    for kind, subtype in FORMATS
    for rate_hz in RATES_HZ
    if rate_hz in ALLOWED_HZ.get(subtype, ALLOWED_HZ.get(kind, RATES_HZ))
    for channels in (1, 2)
]


@pytest.mark.parametrize(("kind", "subtype", "rate_hz", "channels"), GOOD)
def test_every_format_and_rate_gives_the_same_tone_at_16_khz(kind, subtype, rate_hz, channels):
    lossy = subtype in LOSSY
    data = audio_bytes(tone(1000, rate_hz=rate_hz, channels=channels, amplitude=0.5), rate_hz, kind, subtype)
    result = decoded(data)
    assert result.samples.dtype == np.float32
    assert result.samples.shape[0] == channels
    assert abs(result.samples.shape[1] - SAMPLE_RATE_HZ) <= (800 if lossy else 1)
    for channel in result.samples:
        assert peak_frequency_hz(channel) == pytest.approx(1000, abs=2)
        assert amplitude_at(channel, 1000) == pytest.approx(0.5, rel=0.05 if lossy else 0.001)
    facts = result.facts
    assert (facts.format, facts.source_rate_hz, facts.channels) == (f"{kind}/{subtype}", rate_hz, channels)
    assert facts.seconds == pytest.approx(1.0, abs=0.05 if lossy else 1 / rate_hz)
    assert facts.peak == pytest.approx(0.5, abs=0.2 if lossy else 0.001)
    assert facts.clipped_share == 0
    assert facts.dc_offset == pytest.approx(0, abs=0.001)
    assert not facts.length_unknown


@pytest.mark.parametrize("rate_hz", [22_050, 44_100, 48_000, 96_000, 192_000])
def test_content_above_8_khz_does_not_fold_back(rate_hz):
    hidden_hz = 10_000
    data = audio_bytes(tone(1000, rate_hz=rate_hz) + tone(hidden_hz, rate_hz=rate_hz, amplitude=0.4), rate_hz)
    samples = decoded(data).samples[0]
    assert amplitude_at(samples, 1000) == pytest.approx(0.5, rel=0.001)
    assert amplitude_at(samples, SAMPLE_RATE_HZ - hidden_hz) < 1e-4


@pytest.mark.parametrize("rate_hz", [8_000, 48_000])
def test_resampling_keeps_the_moment_of_a_click(rate_hz):
    click = np.zeros(rate_hz)
    click[rate_hz // 2] = 0.9
    samples = decoded(audio_bytes(click, rate_hz)).samples[0]
    assert abs(int(np.argmax(np.abs(samples))) - SAMPLE_RATE_HZ // 2) <= 1


def test_channels_keep_their_order():
    samples = np.stack([tone(500), tone(2000)], axis=1)
    first, second = decoded(audio_bytes(samples)).samples
    assert peak_frequency_hz(first) == pytest.approx(500, abs=2)
    assert peak_frequency_hz(second) == pytest.approx(2000, abs=2)


def test_a_file_longer_than_one_block_is_resampled_without_a_seam():
    data = audio_bytes(tone(1000, seconds=4, rate_hz=44_100), 44_100)
    samples = decoded(data).samples[0][1000:-1000]
    expected = tone(1000, seconds=4)[1000:-1000]
    assert len(samples) == len(expected)
    assert np.abs(samples - expected).max() < 1e-3


def test_wav_of_a_stream_is_read_and_says_that_its_length_was_unknown():
    result = decoded(claiming(audio_bytes(tone(440)), 0xFFFF_FFFF))
    assert result.samples.shape == (1, SAMPLE_RATE_HZ)
    assert result.facts.length_unknown


def test_flac_of_a_stream_is_read():
    data = bytearray(audio_bytes(tone(440), kind="FLAC"))
    data[21] &= 0xF0
    data[22:26] = bytes(4)
    assert decoded(bytes(data)).samples.shape == (1, SAMPLE_RATE_HZ)


def test_chunks_around_the_samples_of_a_wav_do_no_harm():
    wav = audio_bytes(tone(440))
    before = wav[:12] + b"JUNK" + struct.pack("<I", 5) + b"hello\0" + wav[12:]
    after = wav + b"LIST" + struct.pack("<I", 4) + b"abcd"
    np.testing.assert_array_equal(decoded(before).samples, decoded(wav).samples)
    np.testing.assert_array_equal(decoded(after).samples, decoded(wav).samples)


def test_no_bytes_is_empty():
    refused(b"", errors.AudioEmpty)


@pytest.mark.parametrize(("kind", "subtype"), [("WAV", "PCM_16"), ("OGG", "VORBIS")])
def test_no_samples_is_empty(kind, subtype):
    assert "no samples" in refused(audio_bytes(np.zeros(0), kind=kind, subtype=subtype), errors.AudioEmpty)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"This is not audio.\n" * 100, id="text"),
        pytest.param("not audio either\n".encode("utf-16"), id="utf-16 text"),
        pytest.param(b"\x89PNG\r\n\x1a\n" + bytes(100), id="picture"),
        pytest.param(b"RIFF\xf0\x00\x00\x00AVI LIST" + bytes(240), id="film in a RIFF container"),
        pytest.param(b"<!DOCTYPE html><html>404</html>", id="web page"),
        pytest.param(b"x", id="one byte"),
        pytest.param(bytes(1000), id="zeros"),
    ],
)
def test_what_is_no_audio_is_named_so(data):
    assert repr(data[:12]) in refused(data, errors.AudioFormat)


@pytest.mark.parametrize("kind", ["WAV", "RF64", "FLAC"])
@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_lossless_file_that_was_cut_is_truncated(kind, share):
    data = audio_bytes(speech().clip, kind=kind)
    refused(data[: int(share * len(data))], errors.AudioTruncated)


@pytest.mark.parametrize(("kind", "subtype"), [("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III")])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_lossy_file_that_was_cut_is_truncated(kind, subtype, share):
    data = audio_bytes(speech().clip, kind=kind, subtype=subtype)
    refused(data[: int(share * len(data))], errors.AudioTruncated)


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_ogg_that_was_cut_between_two_pages_is_truncated(subtype):
    data = audio_bytes(speech().clip, kind="OGG", subtype=subtype)
    refused(data[: data.rindex(b"OggS")], errors.AudioTruncated)


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_flipped_byte_in_an_ogg_is_found_by_its_checksum(subtype):
    data = bytearray(audio_bytes(speech().clip, kind="OGG", subtype=subtype))
    data[len(data) // 2] ^= 0x10
    assert "checksum" in refused(bytes(data), errors.AudioDecode)


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_ogg_that_lacks_a_page_in_its_middle_is_not_read_as_shorter(subtype):
    data = audio_bytes(np.tile(speech().clip, (3, 1)), kind="OGG", subtype=subtype)
    middle = data.index(b"OggS", len(data) // 2)
    assert "missing" in refused(data[:middle] + data[data.index(b"OggS", middle + 4) :], errors.AudioDecode)


def test_flipped_byte_in_a_flac_is_found():
    data = bytearray(audio_bytes(speech().clip, kind="FLAC"))
    data[len(data) // 2] ^= 0x10
    with pytest.raises(errors.AudioError):
        decoded(bytes(data))


@pytest.mark.parametrize("length", [4, 12, 20, WAV_HEADER_BYTES - 1])
def test_header_that_was_cut_is_refused(length):
    for kind in ("WAV", "FLAC", "OGG", "MP3"):
        with pytest.raises(errors.AudioError):
            decoded(audio_bytes(tone(440), kind=kind)[:length])


def flac_claiming_days() -> bytes:
    data = bytearray(audio_bytes(tone(440), kind="FLAC"))
    data[21] |= 0x0F
    data[22:26] = b"\xff" * 4
    return bytes(data)


def mp3_claiming_hours() -> bytes:
    data = bytearray(audio_bytes(tone(440), kind="MP3"))
    at = max(data.find(b"Xing"), data.find(b"Info"))
    struct.pack_into(">I", data, at + 8, 1_000_000)
    return bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(claiming(audio_bytes(tone(440)), 0x7000_0000), id="wav"),
        pytest.param(flac_claiming_days(), id="flac"),
        pytest.param(mp3_claiming_hours(), id="mp3"),
    ],
)
def test_header_that_claims_hours_allocates_nothing_for_them(data):
    tracemalloc.start()
    try:
        message = refused(data, errors.AudioTruncated)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "promises" in message
    assert peak_bytes < 4 * MEBIBYTE


def test_ten_milliseconds_are_too_short():
    assert "0.010 s" in refused(audio_bytes(tone(440, seconds=0.01)), errors.AudioTooShort)


def test_a_tenth_of_a_second_is_long_enough():
    assert decoded(audio_bytes(tone(440, seconds=0.1))).samples.shape == (1, 1600)


def test_more_than_max_seconds_is_too_long():
    refused(audio_bytes(tone(440, seconds=3)), errors.AudioTooLong, max_seconds=2)


def test_decoding_stops_where_max_seconds_are_reached():
    flac = audio_bytes(np.zeros(3600 * 8000, dtype=np.int16), 8000, "FLAC")
    tracemalloc.start()
    try:
        refused(flac, errors.AudioTooLong, max_seconds=10)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 16 * MEBIBYTE


def test_more_than_max_bytes_is_too_large():
    data = audio_bytes(tone(440))
    refused(data, errors.AudioTooLarge, max_bytes=len(data) - 1)
    assert decoded(data, max_bytes=len(data)).samples.size


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 70_000, -1])
def test_one_sample_that_is_not_finite_is_found_wherever_it_is(value, place):
    samples = tone(440, seconds=5)
    samples[place] = value
    refused(audio_bytes(samples, subtype="FLOAT"), errors.AudioNotFinite)


def test_double_beyond_the_range_of_float_is_not_finite():
    refused(audio_bytes(tone(440) * 1e300, subtype="DOUBLE"), errors.AudioNotFinite)


@pytest.mark.parametrize("channels", [3, 5, 8])
def test_more_than_two_channels_are_refused(channels):
    assert f"{channels} channels" in refused(audio_bytes(tone(440, channels=channels)), errors.AudioChannels)


@pytest.mark.parametrize("rate_hz", [4_000, 7_999, 384_000])
def test_rate_outside_the_limits_is_refused(rate_hz):
    assert f"{rate_hz} Hz" in refused(audio_bytes(tone(440, rate_hz=rate_hz), rate_hz), errors.AudioSampleRate)


def test_all_zeros_are_audio_with_no_peak():
    result = decoded(audio_bytes(np.zeros(SAMPLE_RATE_HZ)))
    assert result.samples.shape == (1, SAMPLE_RATE_HZ)
    assert (result.facts.peak, result.facts.clipped_share, result.facts.dc_offset) == (0, 0, 0)


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT"])
def test_clipped_share_is_a_fact(subtype):
    samples = np.clip(tone(440, amplitude=2.0), -1, 1)
    facts = decoded(audio_bytes(samples, subtype=subtype)).facts
    assert facts.peak == pytest.approx(1.0, abs=1e-4)
    assert facts.clipped_share == pytest.approx(2 / 3, abs=0.01)


def test_dc_offset_is_a_fact():
    facts = decoded(audio_bytes(tone(440) + 0.25)).facts
    assert facts.dc_offset == pytest.approx(0.25, abs=1e-3)
    assert facts.clipped_share == 0


def test_facts_are_those_of_the_file_before_it_is_resampled():
    facts = decoded(audio_bytes(tone(12_000, rate_hz=48_000), 48_000)).facts
    assert facts.peak == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(
    ("offset", "form", "value"),
    [(22, "<H", 0), (24, "<I", 0), (24, "<I", 0xFFFF_FFFF), (20, "<H", 0x7777), (16, "<I", 0xFFFF_FFF0)],
    ids=["no channels", "no rate", "absurd rate", "unknown coding", "absurd chunk"],
)
def test_wav_with_a_damaged_header_is_refused(offset, form, value):
    data = bytearray(audio_bytes(tone(440)))
    struct.pack_into(form, data, offset, value)
    with pytest.raises(errors.AudioError):
        decoded(bytes(data))


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
def test_random_damage_gives_audio_or_an_audio_error_and_nothing_else(kind):
    whole = audio_bytes(speech().answer[:8000], kind=kind)
    random = np.random.default_rng(20)
    for _ in range(60):
        data = bytearray(whole)
        for place in random.integers(0, len(data) if random.random() < 0.5 else 64, size=8):
            data[place] = random.integers(256)
        with suppress(errors.AudioError):
            assert np.isfinite(decoded(bytes(data)).samples).all()


def test_messages_name_no_object_of_the_decoder():
    data = audio_bytes(tone(440), kind="FLAC")[:40]
    assert "object at 0x" not in refused(data, errors.AudioDecode)
