"""Solr: the file for the model store of the module `ltr`.

Solr adds 1e-6 to every threshold, in float32, and tests x <= the sum. A threshold is written so
that the sum is the threshold. Near zero no float32 has such a sum. The values of those features
are then multiplied by a power of two, which is exact, by a normalizer of the model.
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import lru_cache
from typing import Any

import numpy as np

from ulr.models.export.forest import Forest, Node, Split, splits, used_features

_PACKAGE = "org.apache.solr.ltr"
_SLACK = np.float32(1e-6)  # NODE_SPLIT_SLACK of MultipleAdditiveTreesModel
_LARGEST_POWER = 126
_NEIGHBOURS = 2  # float32 values tried on each side


def trees(forest: Forest, name: str) -> str:
    """Return the file for a model of trees."""
    powers = _powers(forest)
    weighted = [{"weight": "1", "root": _node(t, forest.names, powers)} for t in forest.trees]
    features = [_feature(forest.names[k], power) for k, power in powers.items()]
    params = {"isNullSameAsZero": False, "trees": weighted}
    return _file("MultipleAdditiveTreesModel", name, features, params)


def linear(names: list[str], weights: np.ndarray, name: str) -> str:
    """Return the file for a linear model; Solr adds no constant."""
    used = {names[k]: float(weights[k]) for k in np.flatnonzero(weights)}
    return _file("LinearModel", name, [{"name": n} for n in used], {"weights": used})


def _file(kind: str, name: str, features: list[dict[str, Any]], params: dict[str, Any]) -> str:
    content = {"class": f"{_PACKAGE}.model.{kind}", "name": name, "features": features,
               "params": params}  # fmt: skip
    return json.dumps(content, allow_nan=False) + "\n"


def _feature(name: str, power: int) -> dict[str, Any]:
    if power == 0:
        return {"name": name}
    params = {"avg": "0", "std": repr(2.0**-power)}
    return {"name": name, "norm": {"class": f"{_PACKAGE}.norm.StandardNormalizer",
                                   "params": params}}  # fmt: skip


def _node(node: Node, names: list[str], powers: dict[int, int]) -> dict[str, Any]:
    if not isinstance(node, Split):
        return {"value": repr(node)}
    return {
        "feature": names[node.feature],
        "threshold": _threshold(node.threshold, powers[node.feature]),
        "missing": "left" if node.missing_left else "right",
        "left": _node(node.left, names, powers),
        "right": _node(node.right, names, powers),
    }


def _powers(forest: Forest) -> dict[int, int]:
    """Return the power of two for the values of each feature that is used."""
    thresholds = defaultdict(set)
    for tree in forest.trees:
        for split in splits(tree):
            thresholds[split.feature].add(split.threshold)
    used = used_features(forest) or [0]  # a model needs a feature
    return {k: scale_power(np.array(sorted(thresholds[k]), np.float64)) for k in used}


def scale_power(thresholds: np.ndarray) -> int:
    """Return the lowest power of two at which Solr can test all thresholds exactly.

    thresholds: float64 that are float32 values. If there is none because they range from 1e-35 to
    above 1e9, the result is 0, and thresholds below 1e-6 are tested with an error of 1e-13.
    """
    finite = thresholds[np.abs(thresholds) <= np.finfo(np.float32).max]
    largest = np.abs(finite).max(initial=0.0)
    for power in range(_LARGEST_POWER + 1):
        scaled = finite * 2.0**power
        if largest * 2.0**power >= 2.0**128:
            break
        if ((without_slack(scaled) + _SLACK).astype(np.float64) == scaled).all():
            return power
    return 0


def without_slack(thresholds: np.ndarray) -> np.ndarray:
    """Return float32 values whose sum with the slack is nearest to the thresholds, or equal."""
    with np.errstate(over="ignore"):
        target = thresholds.astype(np.float32)
    best = target - _SLACK
    lower, upper = best, best
    for _ in range(_NEIGHBOURS):
        with np.errstate(over="ignore"):
            lower = np.nextafter(lower, np.float32(-np.inf))
            upper = np.nextafter(upper, np.float32(np.inf))
        for candidate in (target, lower, upper):
            best = np.where(_error(candidate, target) < _error(best, target), candidate, best)
    return best


def _error(values: np.ndarray, target: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        difference = (values + _SLACK).astype(np.float64) - target.astype(np.float64)
    return np.where(np.isnan(difference), 0.0, np.abs(difference))


@lru_cache(maxsize=1 << 18)
def _threshold(threshold: float, power: int) -> str:
    value = float(without_slack(np.array([threshold * 2.0**power]))[0])
    return repr(value).replace("inf", "Infinity")
