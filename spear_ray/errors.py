"""The errors of spear_ray; each leaf has a stable code that also stands in the Parquet rows.

::

    SpearError
    ├── RequestError                   the request is wrong: the run does not start, exit 2
    │   ├── ConfigError                config_invalid
    │   ├── DataLayoutError            data_layout
    │   └── PrerequisiteError          prerequisite_missing
    │       └── CheckpointMissing      checkpoint_missing
    ├── InfrastructureError            the cluster or the store failed, exit 3
    │   ├── StorageError               storage_failed
    │   └── ClusterError               cluster_failed
    └── RowError                       one dialogue cannot be scored: its rows say why, the run goes on
        ├── AudioError
        │   ├── AudioMissing           audio_missing
        │   ├── AudioEmpty             audio_empty
        │   ├── AudioFormat            audio_format
        │   ├── AudioDecode            audio_decode
        │   ├── AudioTruncated         audio_truncated
        │   ├── AudioTooShort          audio_too_short
        │   ├── AudioTooLong           audio_too_long
        │   ├── AudioTooLarge          audio_too_large
        │   ├── AudioChannels          audio_channels
        │   ├── AudioSampleRate        audio_sample_rate
        │   └── AudioNotFinite         audio_not_finite
        ├── FieldError
        │   ├── FieldMissing           field_missing
        │   ├── FieldInvalid           field_invalid
        │   └── TimeOutOfRange         time_out_of_range
        ├── DuplicateId                duplicate_id
        ├── PathOutsideData            path_outside_data
        ├── ShardDamaged               shard_damaged
        └── ScorerError                scorer_failed
            ├── OutOfGpuMemory         gpu_out_of_memory
            └── JudgeParseError        judge_parse_error
"""

from __future__ import annotations

from typing import ClassVar


class SpearError(Exception):
    """Anything that spear_ray reports itself; `code` is stable, the message is for people."""

    code: ClassVar[str] = "spear_error"
    exit_code: ClassVar[int] = 1


class RequestError(SpearError):
    """The request is wrong; nothing was started."""

    code = "request_wrong"
    exit_code = 2


class ConfigError(RequestError):
    """A configuration key is unknown or its value does not fit."""

    code = "config_invalid"


class DataLayoutError(RequestError):
    """The data set does not have the layout or the columns that it must have."""

    code = "data_layout"


class PrerequisiteError(RequestError):
    """Something that a scorer needs is not installed or not at hand."""

    code = "prerequisite_missing"


class CheckpointMissing(PrerequisiteError):
    """A model checkpoint is not at hand; the message holds the command that fetches it."""

    code = "checkpoint_missing"


class InfrastructureError(SpearError):
    """The cluster or the store failed; the same run can be started again."""

    code = "infrastructure_failed"
    exit_code = 3


class StorageError(InfrastructureError):
    """An object store or a disk could not be read or written."""

    code = "storage_failed"


class ClusterError(InfrastructureError):
    """The Ray cluster failed, or has too few resources for the configured scorers."""

    code = "cluster_failed"


class RowError(SpearError):
    """One dialogue cannot be scored; it becomes an error row with this code."""

    code = "row_error"


class AudioError(RowError):
    """Audio that cannot be scored."""

    code = "audio_error"


class AudioMissing(AudioError):
    """The audio object does not exist."""

    code = "audio_missing"


class AudioEmpty(AudioError):
    """No bytes, or no samples."""

    code = "audio_empty"


class AudioFormat(AudioError):
    """Not an audio file of a known format."""

    code = "audio_format"


class AudioDecode(AudioError):
    """The decoder gave up."""

    code = "audio_decode"


class AudioTruncated(AudioError):
    """The file holds less audio than its header says."""

    code = "audio_truncated"


class AudioTooShort(AudioError):
    """Shorter than `audio.min_seconds`."""

    code = "audio_too_short"


class AudioTooLong(AudioError):
    """Longer than `audio.max_seconds`."""

    code = "audio_too_long"


class AudioTooLarge(AudioError):
    """More bytes than `audio.max_bytes`."""

    code = "audio_too_large"


class AudioChannels(AudioError):
    """A number of channels that does not fit."""

    code = "audio_channels"


class AudioSampleRate(AudioError):
    """A sample rate outside `audio.min_rate_hz` to `audio.max_rate_hz`."""

    code = "audio_sample_rate"


class AudioNotFinite(AudioError):
    """NaN or infinite samples."""

    code = "audio_not_finite"


class FieldError(RowError):
    """A field of the metadata cannot be used."""

    code = "field_error"


class FieldMissing(FieldError):
    """A required field is blank."""

    code = "field_missing"


class FieldInvalid(FieldError):
    """A field holds something else than what it should."""

    code = "field_invalid"


class TimeOutOfRange(FieldError):
    """A time lies outside the audio."""

    code = "time_out_of_range"


class DuplicateId(RowError):
    """The id was already used by an earlier row."""

    code = "duplicate_id"


class PathOutsideData(RowError):
    """A path in the metadata leads out of the data set."""

    code = "path_outside_data"


class ShardDamaged(RowError):
    """The shard lacks the dialogue that its index lists."""

    code = "shard_damaged"


class ScorerError(RowError):
    """A scorer failed on this dialogue."""

    code = "scorer_failed"


class OutOfGpuMemory(ScorerError):
    """A single dialogue does not fit the GPU's memory."""

    code = "gpu_out_of_memory"


class JudgeParseError(ScorerError):
    """What the judge answered is no decision."""

    code = "judge_parse_error"
