"""How much each feature contributes to a model's scores, for the run and the report.

The contributions are the SHAP values that LightGBM computes (`pred_contrib`), on a sample of the
training documents. The sample depends on the published pairs and on the model alone, so equal
models have equal tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import lightgbm as lgb
import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ulr.engine.columns import lists, whole
from ulr.models.booster import load_booster
from ulr.models.linear import linear_weights

MAX_ROWS, MIN_ROWS = 2000, 100  # documents in the sample
_ROW_GROUPS = 8  # of the pair files, which are read for it
# Visits of nodes by the SHAP values of all rows, at most: about a second on two threads.
_VISITS = 500_000_000
_COLUMNS = ["labels", "features"]
_DIGITS = 6

Row = dict[str, Any]


def importance_of(model_text: str, fs: pafs.FileSystem, files: Sequence[str]) -> Row:
    """Return `rows` of the sample, and the `features` of a model by decreasing contribution.

    gain: of all features together; number: of the features.

    Each feature has gain and split (of trees) or weight (of a linear model), `contribution`, the
    mean absolute contribution to the score of a document, and `direction`, the correlation of
    value and contribution, from -1 to 1. files: the published pairs.
    """
    booster = load_booster(model_text)
    sample = sample_documents(fs, files, booster.num_feature(), _rows(model_text))
    linear = linear_weights(model_text)
    known = _of_trees(booster, sample) if linear is None else _of_weights(linear[0], sample)
    names = booster.feature_name()
    features = [
        {"feature": name, **{key: _rounded(values[k]) for key, values in known.items()}}
        for k, name in enumerate(names)
    ]
    return {"rows": len(sample), "linear": linear is not None, "number": len(features),
            "gain": float(np.sum(known.get("gain", 0.0))),
            "features": sorted(features, key=_order)}  # fmt: skip


def sample_documents(
    fs: pafs.FileSystem, files: Sequence[str], width: int, rows: int
) -> np.ndarray:
    """Return at most so many documents (float32, rows x width), spread over the pair files."""
    parts = list(_row_groups(fs, files, width))
    quota = -(-rows // max(len(parts), 1))
    chosen = [part[_spread(len(part), quota)] for part in parts]
    return np.concatenate([np.empty((0, width), np.float32), *chosen])[:rows]


def _row_groups(fs: pafs.FileSystem, files: Sequence[str], width: int) -> Iterator[np.ndarray]:
    """Yield the documents of a few row groups, in few files, evenly spaced."""
    chosen = [files[n] for n in _spread(len(files), _ROW_GROUPS)]
    for path in chosen:
        with pq.ParquetFile(path, filesystem=fs) as content:
            for group in _spread(content.num_row_groups, -(-_ROW_GROUPS // len(chosen))):
                table = content.read_row_group(int(group), columns=_COLUMNS, use_threads=False)
                yield _documents(table, width)


def _documents(table: pa.Table, width: int) -> np.ndarray:
    values = lists(whole(table["features"])).values.to_numpy(zero_copy_only=False)
    return np.asarray(values, np.float32).reshape(-1, width)


def _spread(size: int, most: int) -> np.ndarray:
    """Return at most so many indices below `size`, evenly spaced."""
    return np.arange(min(size, most)) * size // max(min(size, most), 1)


def _rows(model_text: str) -> int:
    """Return the size of the sample; deep trees have SHAP values that take long."""
    visits = sum(map(_visits, model_text.split("\nTree=")[1:]))
    return int(np.clip(_VISITS // max(visits, 1), MIN_ROWS, MAX_ROWS))


def _visits(tree: str) -> int:
    """Return the sum of the squared depths of a tree's leaves."""
    fields = dict(line.split("=", 1) for line in tree.split("\n") if "=" in line)
    if "left_child" not in fields:
        return 0
    sides = [list(map(int, fields[name].split())) for name in ("left_child", "right_child")]
    depth, visits = {0: 1}, 0
    for node, children in enumerate(zip(*sides, strict=True)):  # a child follows its parent
        for child in children:
            if child >= 0:
                depth[child] = depth[node] + 1
            else:
                visits += depth[node] ** 2
    return visits


def _of_trees(booster: lgb.Booster, sample: np.ndarray) -> dict[str, np.ndarray]:
    width = booster.num_feature()
    values = np.zeros((0, width))
    if len(sample):
        values = np.asarray(booster.predict(sample, pred_contrib=True))[:, :width]
    return {
        "gain": booster.feature_importance("gain"),
        "split": booster.feature_importance("split"),
        "contribution": np.abs(values).mean(axis=0) if len(sample) else np.full(width, np.nan),
        "direction": np.array([_correlation(sample[:, k], values[:, k]) for k in range(width)]),
    }


def _of_weights(weights: np.ndarray, sample: np.ndarray) -> dict[str, np.ndarray]:
    """Return the weights, and how far a feature moves the score from that of its mean."""
    with np.errstate(invalid="ignore", over="ignore"):
        values = np.ma.masked_invalid(sample.astype(np.float64))
        distance = np.ma.filled(np.abs(values - values.mean(axis=0)).mean(axis=0), np.nan)
        return {"weight": weights, "contribution": np.abs(weights) * distance,
                "direction": np.sign(weights)}  # fmt: skip


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Return the correlation over finite x; NaN if one of them is constant."""
    finite = np.isfinite(x)
    x, y = x[finite].astype(np.float64), y[finite]
    if x.size < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.corrcoef(x / np.abs(x).max(), y)[0, 1])


def _rounded(value: float) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if np.isfinite(value) else None


def _order(row: Row) -> tuple[float, float]:
    strength = row.get("gain") or abs(row.get("weight") or 0.0)
    return -(row["contribution"] or 0.0), -strength
