"""Bytes to float32 at 16 kHz, and two clips onto one time line: the only place that decodes or resamples.

Decoding streams: blocks are read, measured and resampled one after the other, so that memory is bounded by the
audio that is really there and never by what a header claims.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import soundfile
import soxr

from spear_ray.config import AudioConfig
from spear_ray.containers import check_is_audio, check_ogg_pages, check_wav_length
from spear_ray.dialogue import SAMPLE_RATE_HZ, Samples
from spear_ray.errors import (
    AudioChannels,
    AudioDecode,
    AudioEmpty,
    AudioError,
    AudioNotFinite,
    AudioSampleRate,
    AudioTooLarge,
    AudioTooLong,
    AudioTooShort,
    AudioTruncated,
)

BLOCK_FRAMES = 1 << 16
MP3_FRAME = 1152
FULL_SCALE = 1.0 - 2.0**-15
"""Samples at or above this magnitude count as clipped: the largest int16 value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioFacts:
    """What a file was like before it was resampled.

    Args:
        format: container and coding, for instance `WAV/PCM_24`.
        source_rate_hz: as stored.
        channels: as stored.
        seconds: decoded length.
        peak: largest magnitude; 1.0 is full scale.
        clipped_share: share of samples at full scale.
        dc_offset: mean over all samples.
        length_unknown: the header gave no usable length (a streamed WAV).
    """

    format: str
    source_rate_hz: int
    channels: int
    seconds: float
    peak: float
    clipped_share: float
    dc_offset: float
    length_unknown: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """Audio at 16 kHz: float32 [channels, samples], one or two channels."""

    samples: Samples
    facts: AudioFacts


def decode(data: bytes, limits: AudioConfig) -> Decoded:
    """Decode one file: wav, flac, ogg, mp3 or opus, mono or two channels.

    Args:
        data: the whole file.
        limits: what is accepted.

    Returns:
        Samples at 16 kHz, resampled once with soxr's HQ (anti-aliasing) filter, and the facts of the source.

    Raises:
        AudioEmpty, AudioTooLarge, AudioFormat, AudioChannels, AudioSampleRate: before decoding.
        AudioDecode, AudioTruncated, AudioTooLong, AudioTooShort, AudioNotFinite: while decoding.
    """
    if not data:
        raise AudioEmpty("the file has no bytes")
    if len(data) > limits.max_bytes:
        raise AudioTooLarge(f"{len(data)} bytes; audio.max_bytes is {limits.max_bytes}")
    check_is_audio(data)
    streamed = check_wav_length(data) if data[8:12] == b"WAVE" else False
    if data[:4] == b"OggS":
        check_ogg_pages(data)
    try:
        with _Stream(io.BytesIO(data)) as file:
            _check_header(file.channels, file.samplerate, limits)
            return _decode_stream(file, limits, streamed)
    except soundfile.LibsndfileError as error:
        raise AudioDecode(f"the decoder gave up: {error.error_string}") from error


def as_flac(data: bytes, limits: AudioConfig) -> bytes | None:
    """The same PCM samples as a FLAC file, or None where the file is no 16 or 24 bit PCM or cannot be decoded.

    A FLAC file is returned as it is.
    """
    if data[:4] == b"fLaC":
        return data
    try:
        decode(data, limits)
        with _Stream(io.BytesIO(data)) as file:
            if file.subtype not in ("PCM_16", "PCM_24"):
                return None
            out = io.BytesIO()
            with soundfile.SoundFile(
                out, "w", file.samplerate, file.channels, subtype=file.subtype, format="FLAC"
            ) as flac:
                while len(block := file.read(BLOCK_FRAMES, dtype="int32", always_2d=True)):
                    flac.write(block)
            return out.getvalue()
    except (AudioError, soundfile.LibsndfileError):
        return None


def lay_on_time_line(clip: Samples, answer: Samples, onset_s: float) -> Samples:
    """Put an answer onto the answering side's channel of a clip.

    From the onset on, that channel holds the answer and nothing else: a party has one mouth, and what the clip has
    there after the onset is another answer to the same question.

    Args:
        clip: float32 [2, samples] at 16 kHz; channel 1 is the answering side.
        answer: float32 [samples] at 16 kHz.
        onset_s: the answer's first sample, in seconds from the clip's beginning; not negative.

    Returns:
        float32 [2, samples].
    """
    onset = round(onset_s * SAMPLE_RATE_HZ)
    if onset < 0:
        raise ValueError(f"the answer starts {-onset} samples before the clip")
    length = max(clip.shape[1], onset + answer.size)
    line = np.zeros((2, length), dtype=np.float32)
    line[:, : clip.shape[1]] = clip
    line[1, onset:] = 0.0
    line[1, onset : onset + answer.size] = answer
    return line


def published_mix(clip: Samples, answer: Samples, answer_start_s: float, rate_hz: int) -> Samples:
    """SPEARBench's mix before turn taking: the answer is added to both channels.

    Source: SPEARBench, bin/turntaking/run_turntaking_inference.py: start = max(0, clip length +
    round(answer_start_s x rate)); where the sum's peak exceeds 1 everything is divided by it.

    Args:
        clip: float32 [2, samples].
        answer: float32 [samples], or [2, samples] for a two-channel answer file.
        answer_start_s: relative to the clip's end.
        rate_hz: of both.

    Returns:
        float32 [2, samples].
    """
    start = max(0, clip.shape[1] + round(answer_start_s * rate_hz))
    mix = np.zeros((2, max(clip.shape[1], start + answer.shape[-1])), dtype=np.float32)
    mix[:, : clip.shape[1]] = clip
    mix[:, start : start + answer.shape[-1]] += answer
    peak = float(np.abs(mix).max(initial=0.0))
    if peak > 1.0:
        mix /= np.float32(peak)
    return mix


def resampled(samples: Samples, from_hz: int, to_hz: int) -> Samples:
    """Audio at another rate, with soxr's HQ filter.

    Args:
        samples: float32 [channels, samples] at `from_hz`.
        from_hz: its rate.
        to_hz: the wanted rate.

    Returns:
        float32 [channels, about samples * to_hz / from_hz].
    """
    if from_hz == to_hz:
        return samples
    changed: Samples = soxr.resample(np.ascontiguousarray(samples.T), from_hz, to_hz, quality="HQ")
    return np.ascontiguousarray(changed.T)


class _Stream(soundfile.SoundFile):  # type: ignore[misc]
    """Reads forward only: soundfile seeks after each block, which a FLAC of unstated length does not allow."""

    def seekable(self) -> bool:
        return False


def _check_header(channels: int, rate_hz: int, limits: AudioConfig) -> None:
    if channels not in (1, 2):
        raise AudioChannels(f"{channels} channels; one or two are expected")
    if not limits.min_rate_hz <= rate_hz <= limits.max_rate_hz:
        raise AudioSampleRate(
            f"{rate_hz} Hz; {limits.min_rate_hz} to {limits.max_rate_hz} Hz are accepted"
            " (audio.min_rate_hz, audio.max_rate_hz)"
        )


def _decode_stream(file: soundfile.SoundFile, limits: AudioConfig, streamed: bool) -> Decoded:
    meter = _Meter(file.channels)
    parts = list(_resampled(_blocks(file, limits, meter), file.samplerate, file.channels))
    frames, rate_hz = meter.frames, file.samplerate
    if frames == 0:
        raise AudioEmpty("the file has no samples")
    promised = _promised_frames(file)
    if frames < promised:
        raise AudioTruncated(f"the header promises {promised} samples, the file holds {frames}")
    if frames / rate_hz < limits.min_seconds:
        raise AudioTooShort(f"{frames / rate_hz:.3f} s; at least {limits.min_seconds} s are needed (audio.min_seconds)")
    samples = np.ascontiguousarray(np.concatenate(parts).T)
    return Decoded(samples, meter.facts(f"{file.format}/{file.subtype}", rate_hz, streamed))


def _promised_frames(file: soundfile.SoundFile) -> int:
    """Frames that a FLAC or MP3 (Xing) header promises; 0 where it does not say. An MP3 may lack its padding."""
    if file.format not in ("FLAC", "MP3") or file.frames >= 1 << 40:
        return 0
    return int(file.frames) if file.format == "FLAC" else max(0, int(file.frames) - 2 * MP3_FRAME)


def _blocks(file: soundfile.SoundFile, limits: AudioConfig, meter: _Meter) -> Iterator[Samples]:
    most = int(limits.max_seconds * file.samplerate)
    promised = _promised_frames(file)
    while True:
        try:
            block = file.read(BLOCK_FRAMES, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            if meter.frames < promised:
                raise AudioTruncated(
                    f"decoding stopped after {meter.frames} of {promised} promised samples: {error.error_string}"
                ) from error
            raise
        if not len(block):
            return
        meter.add(block)
        if meter.frames > most:
            raise AudioTooLong(f"longer than {limits.max_seconds} s (audio.max_seconds)")
        yield block


def _resampled(blocks: Iterator[Samples], rate_hz: int, channels: int) -> Iterator[Samples]:
    if rate_hz == SAMPLE_RATE_HZ:
        yield from blocks
        return
    stream = soxr.ResampleStream(rate_hz, SAMPLE_RATE_HZ, channels, dtype="float32", quality="HQ")
    for block in blocks:
        yield stream.resample_chunk(block)
    yield stream.resample_chunk(np.zeros((0, channels), dtype=np.float32), last=True)


class _Meter:
    """Gathers facts block by block."""

    def __init__(self, channels: int) -> None:
        self.channels = channels
        self.frames = 0
        self._peak = 0.0
        self._clipped = 0
        self._sum = 0.0

    def add(self, block: Samples) -> None:
        if not np.isfinite(block).all():
            raise AudioNotFinite(f"NaN or infinite samples within {len(block)} frames after frame {self.frames}")
        magnitude = np.abs(block)
        self.frames += len(block)
        self._peak = max(self._peak, float(magnitude.max()))
        self._clipped += int(np.count_nonzero(magnitude >= FULL_SCALE))
        self._sum += float(block.sum(dtype=np.float64))

    def facts(self, form: str, rate_hz: int, streamed: bool) -> AudioFacts:
        count = self.frames * self.channels
        return AudioFacts(
            format=form,
            source_rate_hz=rate_hz,
            channels=self.channels,
            seconds=self.frames / rate_hz,
            peak=self._peak,
            clipped_share=self._clipped / count,
            dc_offset=self._sum / count,
            length_unknown=streamed,
        )
