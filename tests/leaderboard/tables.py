"""Tables of score rows, made by hand."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from spear_ray.config import LeaderboardConfig
from spear_ray.scorers.base import Metric

CONFIG = LeaderboardConfig(resamples=200)

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("dialogue_id", "conversation_id", "system", "split", "subset")),
        *((name, pa.string()) for name in ("scorer", "version", "fingerprint", "status", "code", "message")),
        ("metrics", pa.map_(pa.string(), pa.float64())),
        ("details", pa.string()),
    ]
)

VAD = (
    Metric(name="answered", unit="%", scale=100, direction="human", headline=True, about="Share answered."),
    Metric(name="latency_ms", unit="ms", direction="human", headline=True, about="End of question to answer."),
    Metric(
        name="latency_median_ms",
        key="latency_ms",
        reducer="median",
        unit="ms",
        direction="human",
        about="Median.",
    ),
    Metric(
        name="spear_latency_ms",
        unit="ms",
        direction="human",
        column="latency_ms",
        about="As SPEARBench defines.",
    ),
    Metric(name="overlap_ms", unit="ms", direction="human", column="interrupted_time_ms", about="Overlap."),
    Metric(
        name="interrupted",
        unit="%",
        scale=100,
        direction="human",
        headline=True,
        column="interruptions_%",
        about="Share that starts while the question goes on.",
    ),
)


def row(system: str, item: str, conversation: str = "c0", **changes: Any) -> dict[str, Any]:
    """One score row of the vad scorer; keyword arguments replace columns."""
    subset = changes.get("subset", "improvised")
    split = changes.get("split", "test")
    return {
        "dialogue_id": f"{system}/{split}/{subset}/{item}",
        "conversation_id": conversation,
        "system": system,
        "split": split,
        "subset": subset,
        "scorer": "vad",
        "version": "1",
        "fingerprint": "f" * 16,
        "status": "ok",
        "code": None,
        "message": None,
        "metrics": {},
        "details": None,
    } | changes


def table(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows as the pipeline commits them."""
    return pa.Table.from_pylist([{**one, "metrics": list(one["metrics"].items())} for one in rows], schema=SCHEMA)
