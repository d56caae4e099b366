"""TRACE against what the published code recorded: every case, whatever their names and sizes."""

import io
import json
import os
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from spear_ray.affect.sequences import interleaved, unit_rows, windows
from spear_ray.errors import ScorerError
from spear_ray.networks.sentences import hash_vector
from spear_ray.networks.trace import Hidden, Trace
from spear_ray.networks.trace_checkpoint import load_trace
from spear_ray.networks.trace_layers import Norm, rotated, rotation

ROOT = Path(os.environ.get("SPEAR_GOLDEN_DIR") or Path(__file__).parent.parent / "golden") / "03_trace"
TOLERANCE = 1e-4


@cache
def content(name: str):
    return json.loads((ROOT / name).read_text())


@cache
def arrays(name: str) -> dict[str, np.ndarray]:
    with np.load(ROOT / name) as stored:
        return dict(stored)


CASES = {case["name"]: case for case in content("forward_cases.json")["cases"]}
STORED = [name for name, case in CASES.items() if (ROOT / case["weights"]).is_file()]
BY_FORMULA = [name for name in CASES if name not in STORED]
RESULTS = content("pipeline_cases.json")["results"]


@cache
def model_of(name: str) -> Trace:
    config = CASES[name]["config"]
    return load_trace(ROOT / CASES[name]["weights"], heads=config["heads"], max_vectors=config["maxlen"])


def compare(found, name: str, file: str = "forward.npz") -> None:
    found = found.numpy() if isinstance(found, torch.Tensor) else found
    np.testing.assert_allclose(found, arrays(file)[name], rtol=0, atol=TOLERANCE, err_msg=name)


def inputs() -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    stored = arrays("forward.npz")
    sequences = [x[:length] for x, length in zip(stored["x"], stored["lengths"], strict=True)]
    return sequences, {"context": stored["ctx"], "relation": stored["rel"], "categories": stored["cat_ids"]}


def published_batch(model: Trace) -> Hidden:
    stored = {key: torch.from_numpy(value) for key, value in arrays("forward.npz").items()}
    with torch.inference_mode():
        texts = (stored["cat_ids"], stored["ctx"], stored["rel"])
        return model(stored["x"], stored["lengths"], texts, published_padding=True)


@pytest.mark.parametrize("name", STORED)
def test_every_recorded_part_of_a_padded_batch(name):
    hidden = published_batch(model_of(name))
    parts = {"tokens_batch": hidden.tokens, "pooled_batch": hidden.pooled, "aux": hidden.aux}
    parts |= {"logits_batch": hidden.logits}
    recorded = {key.removeprefix(f"{name}.") for key in arrays("forward.npz") if key.startswith(f"{name}.")}
    assert recorded <= {*parts, "logits_single"}
    for part in recorded - {"logits_single"}:
        compare(parts[part], f"{name}.{part}")


@pytest.mark.parametrize("name", STORED)
def test_a_batch_gives_the_logits_of_sequences_alone_or_the_published_ones(name):
    sequences, texts = inputs()
    compare(model_of(name).logits(sequences, **texts), f"{name}.logits_single")
    compare(model_of(name).logits(sequences, **texts, published_padding=True), f"{name}.logits_batch")


@pytest.mark.parametrize("name", STORED)
def test_recorded_sizes_and_kinds_are_read_from_the_tensors(name):
    model, config = model_of(name), CASES[name]["config"]
    aux = config["use_aux"]
    assert model.kind == CASES[name]["model_type"]
    assert model.width == config["d_in"]
    assert (model.context_width, model.relation_width) == ((config["ctx"], config["rel"]) if aux else (0, 0))


def by_formula(name: str, key: str, shape: list[int]) -> torch.Tensor:
    """The recorded cases' weights; see forward_cases.json."""
    drawn = np.random.RandomState(zlib.crc32(f"{name}/{key}".encode()) & 0xFFFFFFFF).standard_normal(shape)
    if key.endswith("bias"):
        drawn = 0.1 * drawn
    elif len(shape) == 1:
        drawn = 1 + 0.1 * drawn
    elif "cat_embs" not in key:
        drawn = drawn / np.sqrt(np.prod(shape[1:]))
    return torch.from_numpy(drawn.astype(np.float32))


@pytest.mark.parametrize("name", BY_FORMULA)
def test_full_size(name, tmp_path):
    shapes = content(f"{name}_state_dict_keys.json")
    save_file({key: by_formula(name, key, shape) for key, shape in shapes.items()}, tmp_path / "m.safetensors")
    config, stored = CASES[name]["config"], arrays("forward_full.npz")
    model = load_trace(tmp_path / "m.safetensors", heads=config["heads"], max_vectors=config["maxlen"])
    x, context, relation = (stored[f"{part}_f16"].astype(np.float32) for part in ("x", "ctx", "rel"))
    compare(model.logits(list(x), context, relation), f"{name}.logit", "forward_full.npz")


def of_speaker(base: str) -> list[np.ndarray]:
    stored = arrays("pipeline.npz")
    return [stored[key] for key in sorted(stored) if key.startswith(f"chunk/{base}/")]


def text_vector(kind: str, text: str, width: int) -> np.ndarray:
    """As the published code: by the literal text, and the hash where there is none or one of another width."""
    stored = arrays("pipeline.npz").get(f"{kind}/{text}")
    return stored if stored is not None and stored.size == width else hash_vector(text, width)


@cache
def csv_rows() -> list[dict]:
    """The rows as pandas reads them back: `nan` and its like are blank."""
    file = io.StringIO(pd.DataFrame(content("pipeline_cases.json")["csv_rows"]).to_csv(index=False))
    return pd.read_csv(file, dtype=str).fillna("").to_dict("records")


def texts_of(rows: list[dict], model: Trace) -> dict[str, np.ndarray]:
    relations = [" [SEP] ".join(row[key] for key in ("speaker_a_role", "speaker_b_role", "rel_detail")) for row in rows]
    contexts = [row["high_level_context"] for row in rows]
    return {
        "context": np.stack([text_vector("context_map", text, model.context_width) for text in contexts]),
        "relation": np.stack([text_vector("rel_map", text, model.relation_width) for text in relations]),
    }


def results_of(run: str) -> tuple[Trace, int, int, list[dict]]:
    name, batch, pairs = run.rsplit(".", 2)
    return model_of(name), int(batch.removeprefix("batch")), int(pairs.removeprefix("max_pairs")), RESULTS[run]


@pytest.mark.parametrize("run", RESULTS)
def test_published_predictions(run):
    model, batch, pairs, results = results_of(run)
    good = [result for result in results if not result["error"]]
    least = content("pipeline_cases.json")["MIN_REAL_PAIRS"]
    assert good
    for start in range(0, len(good), batch):
        part = good[start : start + batch]
        sequences = [
            interleaved(*(unit_rows(of_speaker(one[key]), least) for key in ("p1_base", "p2_base")), pairs)
            for one in part
        ]
        texts = texts_of([csv_rows()[one["row_idx"]] for one in part], model)
        logits = model.logits(sequences, **texts, published_padding=True)
        np.testing.assert_allclose(logits, [one["logit"] for one in part], rtol=0, atol=TOLERANCE)
        probabilities = 1 / (1 + np.exp(-logits))
        np.testing.assert_allclose(probabilities, [one["probability"] for one in part], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("run", RESULTS)
def test_rows_of_too_few_windows_are_errors_here_too(run):
    for result in results_of(run)[-1]:
        if "valid chunks" in (result["error"] or ""):
            found = int(result["error"].split("only ")[1].split()[0])
            base = result["error"].split("base_id=")[1].split(":")[0]
            with pytest.raises(ScorerError, match=f"only {found} "):
                unit_rows(of_speaker(base), content("pipeline_cases.json")["MIN_REAL_PAIRS"])


def recorded(prefix: str) -> list[str]:
    return [key.removeprefix(prefix) for key in arrays("pipeline.npz") if key.startswith(prefix)]


@pytest.mark.parametrize("base", recorded("speaker_sequence/"))
def test_speaker_sequences(base):
    stored = arrays("pipeline.npz")[f"speaker_sequence/{base}"]
    found = unit_rows(of_speaker(base))[: len(stored)]
    np.testing.assert_allclose(found, stored, rtol=0, atol=1e-6)


@pytest.mark.parametrize("pair", recorded("interleaved/"))
def test_interleaved_sequences(pair):
    speakers, stored = recorded("speaker_sequence/"), arrays("pipeline.npz")
    a, b = (stored[f"speaker_sequence/{speakers[int(place)]}"] for place in pair.split("_"))
    found = interleaved(a, b, len(stored[f"interleaved/{pair}"]) // 2)
    np.testing.assert_array_equal(found, stored[f"interleaved/{pair}"])


def test_rotary_positions():
    stored = arrays("rope_rmsnorm.npz")
    for name in [key.removesuffix(".cos") for key in stored if key.endswith(".cos")]:
        x = torch.from_numpy(stored[f"{name}.x"])
        cos, sin = rotation(x.shape[-2], x.shape[-1])
        compare(cos, f"{name}.cos", "rope_rmsnorm.npz")
        compare(sin, f"{name}.sin", "rope_rmsnorm.npz")
        compare(rotated(x, cos, sin), f"{name}.y", "rope_rmsnorm.npz")


def test_rms_norm():
    stored = {key: torch.from_numpy(value) for key, value in arrays("rope_rmsnorm.npz").items()}
    norm = Norm(stored["rms.w"].numel())
    norm.load_state_dict({"weight": stored["rms.w"]})
    compare(norm(stored["rms.x"]).detach(), "rms.y", "rope_rmsnorm.npz")


@pytest.mark.parametrize("key", arrays("hash_text.npz"))
def test_hash_vectors(key):
    index, width = key.split(".dim")
    found = hash_vector(content("hash_text.json")["texts"][int(index)], int(width))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, arrays("hash_text.npz")[key], rtol=0, atol=1e-7)


def test_windows():
    stored = content("windows.json")
    window, hop = (round(stored[key] * stored["sr"]) for key in ("win_sec", "hop_sec"))
    for case in stored["cases"]:
        spans = [(start, end) for start, end, _ in case["spans"]]
        assert windows(case["n_samples"], window, hop, case["pad_last"]) == spans
