"""A typed client of the scorer API.

from spear_ray.client import Client

with Client("http://127.0.0.1:8000") as client:
    reply = client.score(question="q.wav", answer="a.wav", request={"answer_start_s": 0.4})
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from spear_ray.errors import SpearError
from spear_ray.serving.messages import BatchLine, BatchRequest, ErrorReply, ScoreReply, ScoreRequest, ScorersReply

TOKEN = "SPEAR_API_TOKEN"  # noqa: S105 - the name of the variable that holds it
TIMEOUT_S = 120.0

Content = bytes | str | Path
"""A file's bytes, or where it lies on this machine."""


class ApiFailure(SpearError):
    """What the API said instead of rows.

    Args:
        status: of HTTP; 0 where there was no answer.
        code: stable.
        message: for people.
    """

    exit_code = 2

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code  # type: ignore[misc]

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in (0, 429, 503)


class Client:
    """Asks one API; not for several threads at once.

    Args:
        url: http:// or https://, with a path where the API has one.
        token: sent as a bearer token; that of SPEAR_API_TOKEN where it is None.
        timeout_s: of one request.
    """

    def __init__(self, url: str, token: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        given = os.environ.get(TOKEN, "") if token is None else token
        headers = {"Authorization": f"Bearer {given}"} if given else {}
        self._http = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=timeout_s)

    def score(
        self,
        *,
        audio: Content | None = None,
        question: Content | None = None,
        answer: Content | None = None,
        request: ScoreRequest | Mapping[str, Any] | None = None,
    ) -> ScoreReply:
        """The rows of one dialogue.

        Args:
            audio: a two-channel file; or
            question: a question's file, and
            answer: an answer's.
            request: times, texts and scorers.

        Raises:
            ApiFailure: there are no rows.
        """
        asked = request if isinstance(request, ScoreRequest) else ScoreRequest.model_validate(request or {})
        given = {"audio": audio, "question": question, "answer": answer}
        files = {key: _file(content, key) for key, content in given.items() if content is not None}
        data = {"request": asked.model_dump_json(exclude_none=True)}
        return ScoreReply.model_validate_json(self._asked("POST", "/v1/score", data=data, files=files).content)

    def score_batch(self, files: Sequence[Content], request: BatchRequest | Mapping[str, Any]) -> Iterator[BatchLine]:
        """The rows of several dialogues, in the order of the request's items.

        Args:
            files: that the items name by their place.
            request: the items.

        Raises:
            ApiFailure: the request as a whole is refused.
        """
        asked = request if isinstance(request, BatchRequest) else BatchRequest.model_validate(request)
        parts = [("files", _file(content, f"file-{place}")) for place, content in enumerate(files)]
        data = {"request": asked.model_dump_json(exclude_none=True)}
        answer = self._asked("POST", "/v1/score/batch", data=data, files=parts)
        return (BatchLine.model_validate_json(line) for line in answer.text.splitlines() if line)

    def scorers(self) -> ScorersReply:
        """What can be measured."""
        return ScorersReply.model_validate_json(self._asked("GET", "/v1/scorers").content)

    def healthy(self) -> bool:
        """Whether the API answers."""
        try:
            return self._http.get("/healthz").status_code == 200
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _asked(self, method: str, path: str, **content: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **content)
        except httpx.TimeoutException as error:
            raise ApiFailure(0, "api_timeout", "the API did not answer in time") from error
        except httpx.HTTPError as error:
            raise ApiFailure(0, "api_unreachable", f"the API cannot be reached ({type(error).__name__})") from error
        if answer.is_success:
            return answer
        try:
            problem = ErrorReply.model_validate_json(answer.content).error
        except ValueError:
            raise ApiFailure(answer.status_code, "api_answer", f"HTTP {answer.status_code}") from None
        raise ApiFailure(answer.status_code, problem.code, problem.message)


def _file(content: Content, name: str) -> tuple[str, bytes]:
    if isinstance(content, bytes):
        return name, content
    path = Path(content)
    return path.name, path.read_bytes()


def as_json(reply: ScoreReply) -> str:
    """The rows as `spear-ray score` prints them."""
    return "".join(json.dumps(row.model_dump(), indent=2) + "\n" for row in reply.rows)
