"""Feature rows where engines could disagree: at thresholds, beside them, near zero and missing."""

from __future__ import annotations

import numpy as np

ZERO = np.float32(1e-35)  # LightGBM reads features up to this magnitude as 0
_INF = np.float32(np.inf)
SPECIAL = np.array(
    [0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40, ZERO, -ZERO, np.nextafter(ZERO, _INF),
     np.nextafter(-ZERO, -_INF), np.nextafter(ZERO, -_INF), np.nextafter(-ZERO, _INF),
     1.0, -1.0, 3.4028235e38, -3.4028235e38, np.inf, -np.inf, np.nan],
    np.float32,
)  # fmt: skip


def edge_values(thresholds: np.ndarray) -> np.ndarray:
    """Return float32 values at, just above and just below every threshold, and the special ones."""
    with np.errstate(over="ignore"):
        near = np.asarray(thresholds, np.float64).astype(np.float32)
        sides = [near, *(np.nextafter(near, side) for side in (-_INF, _INF))]
        sides += [np.nextafter(sides[1], -_INF), np.nextafter(sides[2], _INF)]
    return np.unique(np.concatenate([*sides, SPECIAL]))


def edge_rows(
    base: np.ndarray, splits: list[tuple[int, float]], special: bool = True
) -> np.ndarray:
    """Return rows (float32) with every edge value of every feature, the rest from random rows.

    base: rows to start from; splits: feature and threshold of every node.
    """
    rng, rows = np.random.default_rng(0), []
    for feature in range(base.shape[1]):
        values = edge_values(np.array([t for f, t in splits if f == feature]))
        if not special:
            values = values[np.isfinite(values) & ~np.isin(values, SPECIAL)]
        part = base[rng.integers(0, len(base), values.size)].copy()
        part[:, feature] = values
        rows.append(part)
    missing = np.where(rng.random(base.shape) < 0.3, np.float32(np.nan), base)
    return np.concatenate([*rows, missing[:200].astype(np.float32)])


def splits_of(text: str) -> list[tuple[int, float]]:
    """Return feature and threshold of every node of a model's text."""
    features, thresholds = [], []
    for line in text.split("\n"):
        name, _, value = line.partition("=")
        if name == "split_feature":
            features += map(int, value.split())
        elif name == "threshold":
            thresholds += map(float, value.split())
    return list(zip(features, thresholds, strict=True))
