"""Errors over HTTP: `{"error": {"code", "message"}}` with a status that says whose fault it is."""

from __future__ import annotations

from spear_ray.errors import (
    AudioError,
    AudioFormat,
    AudioTooLarge,
    ConfigError,
    FieldError,
    RequestError,
    RowError,
    SpearError,
)

WRONG, UNAUTHORISED, TOO_LARGE, NOT_AUDIO, NOT_SCORABLE, BUSY = 400, 401, 413, 415, 422, 503


class ApiError(Exception):
    """What a client is told instead of rows.

    Args:
        status: of HTTP.
        code: stable.
        message: for people.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    @property
    def body(self) -> dict[str, dict[str, str]]:
        """What is sent."""
        return {"error": {"code": self.code, "message": str(self)}}


def api_error(error: SpearError) -> ApiError:
    """An error of ours with its status: 413 too large, 415 no audio, 422 audio that cannot be scored, else 400."""
    if isinstance(error, AudioTooLarge):
        status = TOO_LARGE
    elif isinstance(error, AudioFormat):
        status = NOT_AUDIO
    elif isinstance(error, AudioError):
        status = NOT_SCORABLE
    elif isinstance(error, FieldError | ConfigError | RequestError | RowError):
        status = WRONG
    else:
        status = BUSY
    return ApiError(status, error.code, str(error))
