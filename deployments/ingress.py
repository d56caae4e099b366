"""The API: takes requests, decodes once, asks every scorer at the same time, and gathers their rows.

Ray pickles the application while this module is read: annotations are evaluated, and all that the routes use stands
before them.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, File, Form, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import ValidationError
from ray import serve
from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from ray.serve.handle import DeploymentHandle
from ray.util.metrics import Counter, Histogram
from starlette.exceptions import HTTPException

from deployments.limits import Guard
from spear_ray import __version__
from spear_ray.config import load
from spear_ray.dialogue import Dialogue, Score, Status
from spear_ray.errors import SpearError
from spear_ray.serving.dialogues import RequestReader, limits
from spear_ray.serving.messages import (
    BatchItem,
    BatchLine,
    BatchRequest,
    ErrorReply,
    Health,
    ScoreReply,
    ScoreRequest,
    ScorerInfo,
    ScorersReply,
    row_of,
)
from spear_ray.serving.problems import BUSY, TOO_LARGE, WRONG, ApiError, api_error

TRIES = 3
"""How often a scorer is asked whose replica dies meanwhile."""
LATENCY_S = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60]

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorReply, "description": text}
    for status, text in (
        (400, "The request is wrong."),
        (401, "The token is missing or wrong."),
        (413, "Too many bytes."),
        (415, "A file is no audio."),
        (422, "Audio that cannot be scored."),
        (503, "Busy, or a scorer is starting: try again."),
    )
}

api = FastAPI(
    title="spear_ray",
    version=__version__,
    description="How natural is a spoken answer in conversation? The scorers of the batch job, on demand.",
    responses=ERRORS,
)
api.add_middleware(Guard)
log = logging.getLogger("ray.serve")


@api.exception_handler(ApiError)
async def tell_error(_: Request, error: ApiError) -> JSONResponse:
    """An error of ours."""
    return JSONResponse(error.body, error.status)


@api.exception_handler(RequestValidationError)
async def tell_wrong_form(_: Request, error: RequestValidationError) -> JSONResponse:
    """A form without what it must have."""
    first = error.errors()[0]
    text = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return JSONResponse(ApiError(WRONG, "request_invalid", text).body, WRONG)


@api.exception_handler(HTTPException)
async def tell_http(_: Request, error: HTTPException) -> JSONResponse:
    """What the web framework refuses: an unknown route, a wrong method, a damaged form."""
    codes = {404: "not_found", 405: "method_not_allowed"}
    return JSONResponse(
        {"error": {"code": codes.get(error.status_code, "request_invalid"), "message": str(error.detail)}},
        error.status_code,
        headers=error.headers,
    )


def _file(contents: Sequence[tuple[bytes, str]], place: int | None, key: str) -> tuple[bytes, str] | None:
    if place is None:
        return None
    if place >= len(contents):
        raise ApiError(WRONG, "file_missing", f"{key}={place}: the request has {len(contents)} files")
    return contents[place]


def _parsed(kind: Any, text: str) -> Any:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "request"
        raise ApiError(WRONG, "request_invalid", f"{where}: {first['msg']}") from error


@serve.deployment
@serve.ingress(api)
class Ingress:
    """See the module.

    Args:
        words: the configuration.
        handles: the deployment of each scorer that is served, by scorer.
        infos: all scorers, as `/v1/scorers` tells them.
    """

    def __init__(
        self, words: Sequence[str], handles: Mapping[str, DeploymentHandle], infos: Sequence[Mapping[str, Any]]
    ) -> None:
        config = load(list(words))
        self.config = config.serve
        self.handles = dict(handles)
        self.infos = [ScorerInfo(**info) for info in infos]
        self.reader = RequestReader(config.data, limits(config.audio, self.config.max_bytes, self.config.max_seconds))
        self._requests = Counter(
            "spear_requests", description="Requests by route and status.", tag_keys=("route", "status")
        )
        self._rows = Counter(
            "spear_rows", description="Rows by scorer, status and code.", tag_keys=("scorer", "status", "code")
        )
        self._seconds = Counter("spear_audio_seconds", description="Seconds of audio that were scored.")
        self._latency = Histogram(
            "spear_request_seconds",
            description="From a request to its answer.",
            boundaries=LATENCY_S,
            tag_keys=("route",),
        )
        # Imported here: what this class refers to was pickled with it, and would be another object than Guard's.
        from deployments import limits as checks

        checks.CURRENT.max_bytes, checks.CURRENT.report = self.config.max_bytes, self._report

    def _report(self, route: str, status: int, seconds: float) -> None:
        self._requests.inc(tags={"route": route, "status": str(status)})
        self._latency.observe(seconds, tags={"route": route})

    @api.get("/healthz", response_model=Health, summary="Whether rows can be had")
    async def healthz(self) -> Health:
        """Answers when the API takes requests."""
        return Health(status="ok")

    @api.get("/v1/scorers", response_model=ScorersReply, summary="What can be measured")
    async def scorers(self) -> ScorersReply:
        """All scorers with their metrics; those that cannot run here say why."""
        return ScorersReply(scorers=self.infos)

    @api.post("/v1/score", response_model=ScoreReply, summary="Score one dialogue")
    async def score(
        self,
        http: Request,
        audio: Annotated[UploadFile | None, File(description="two channels: 0 asks, 1 answers")] = None,
        question: Annotated[UploadFile | None, File(description="the clip up to the question's end")] = None,
        answer: Annotated[UploadFile | None, File(description="the answer")] = None,
        request: Annotated[str, Form(description="JSON: see ScoreRequest")] = "{}",
    ) -> JSONResponse:
        """One two-channel file, or a question's and an answer's; wav, flac, ogg, opus or mp3."""
        begun = time.monotonic()
        asked = _parsed(ScoreRequest, request)
        names = self._wanted(asked)
        files = {"audio": audio, "question": question, "answer": answer}
        contents = {key: (await file.read(), file.filename or "") for key, file in files.items() if file is not None}
        dialogue = await asyncio.to_thread(self._dialogue, asked, contents)
        rows = await self._scored(dialogue, names, self._deadline(asked, begun))
        reply = ScoreReply(request_id=http.state.request_id, rows=[row_of(row) for row in rows])
        return JSONResponse(reply.model_dump())

    @api.post(
        "/v1/score/batch",
        summary="Score several dialogues",
        responses={200: {"content": {"application/x-ndjson": {"schema": BatchLine.model_json_schema()}}}},
    )
    async def score_batch(
        self,
        files: Annotated[list[UploadFile], File(description="named by their place in the request's items")],
        request: Annotated[str, Form(description="JSON: see BatchRequest")],
    ) -> StreamingResponse:
        """One line of JSON for each item, in the order of the request; an item that cannot be read says why."""
        asked = _parsed(BatchRequest, request)
        if len(asked.items) > self.config.max_items:
            raise ApiError(
                TOO_LARGE, "too_many_items", f"{len(asked.items)} items; at most {self.config.max_items} are taken"
            )
        for item in asked.items:
            self._wanted(item)
        contents = [(await file.read(), file.filename or "") for file in files]
        return StreamingResponse(self._lines(asked.items, contents), media_type="application/x-ndjson")

    async def _lines(self, items: Sequence[BatchItem], contents: Sequence[tuple[bytes, str]]) -> AsyncIterator[str]:
        tasks = [asyncio.create_task(self._line(item, contents)) for item in items]
        try:
            for task in tasks:
                yield (await task).model_dump_json(exclude_none=True) + "\n"
        finally:
            for task in tasks:
                task.cancel()

    async def _line(self, item: BatchItem, contents: Sequence[tuple[bytes, str]]) -> BatchLine:
        begun = time.monotonic()
        try:
            own = {key: _file(contents, getattr(item, key), key) for key in ("audio", "question", "answer")}
            given = {key: file for key, file in own.items() if file is not None}
            dialogue = await asyncio.to_thread(self._dialogue, item, given)
            rows = await self._scored(dialogue, self._wanted(item), self._deadline(item, begun))
        except ApiError as error:
            return BatchLine(id=item.id, error=error.body["error"])  # type: ignore[arg-type]
        return BatchLine(id=item.id, rows=[row_of(row) for row in rows])

    def _wanted(self, request: ScoreRequest) -> list[str]:
        names = list(self.handles) if request.scorers is None else list(dict.fromkeys(request.scorers))
        unknown = [name for name in names if name not in self.handles]
        if unknown or not names:
            served = ", ".join(self.handles)
            raise ApiError(
                WRONG, "scorer_unknown", f"not served here: {', '.join(unknown) or 'none'}; served: {served}"
            )
        return names

    def _deadline(self, request: ScoreRequest, begun: float) -> float:
        return begun + min(self.config.deadline_s, request.deadline_s or self.config.deadline_s)

    def _dialogue(self, request: ScoreRequest, files: Mapping[str, tuple[bytes, str]]) -> Dialogue:
        """The decoded dialogue.

        Raises:
            ApiError: the files or fields do not fit.
        """
        kinds = set(files)
        try:
            if kinds == {"audio"}:
                return self.reader.recording(request, files["audio"][0])
            if kinds == {"question", "answer"}:
                (question, name), (answer, _) = files["question"], files["answer"]
                return self.reader.exchange(request, question, answer, name)
        except SpearError as error:
            raise api_error(error) from error
        raise ApiError(WRONG, "files_wrong", "send either audio (two channels), or question and answer")

    async def _scored(self, dialogue: Dialogue, names: Sequence[str], deadline: float) -> list[Score]:
        rows = await asyncio.gather(*(self._row(name, dialogue, deadline) for name in names))
        self._seconds.inc(dialogue.seconds)
        for row in rows:
            self._rows.inc(tags={"scorer": row.scorer, "status": str(row.status), "code": row.code or ""})
        return list(rows)

    async def _row(self, name: str, dialogue: Dialogue, deadline: float) -> Score:
        """One scorer's row; an error row where it is late.

        Raises:
            ApiError: the scorer has no free place, or its replicas die again and again.
        """
        for _ in range(TRIES):
            response = self.handles[name].score.remote(name, dialogue)
            try:
                score: Score = await asyncio.wait_for(response, max(0.001, deadline - time.monotonic()))
                return score
            except TimeoutError:
                response.cancel()
                return self._late(name, dialogue)
            except (BackPressureError, DeploymentUnavailableError) as error:
                raise ApiError(BUSY, "busy", f"{name} has no free place: try again") from error
            except RayActorError:
                log.warning("a replica of %s died; its request is given to another one", name)
        raise ApiError(BUSY, "scorer_unavailable", f"{name} is being restarted: try again")

    def _late(self, name: str, dialogue: Dialogue) -> Score:
        info = next(info for info in self.infos if info.name == name)
        return Score(
            dialogue_id=dialogue.dialogue_id,
            conversation_id=dialogue.conversation_id,
            system=dialogue.system,
            split=dialogue.split,
            subset=dialogue.subset,
            scorer=name,
            version=info.version,
            fingerprint=info.fingerprint,
            status=Status.ERROR,
            code="timeout",
            message="the scorer did not answer within the request's deadline",
        )
