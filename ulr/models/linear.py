"""A linear model as LightGBM text, so that every reader of models reads it.

The text is one tree of two leaves with the same linear function. A row with a missing value in a
feature of the function gets the leaf's value, 0, and not the sum over its other features.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import lightgbm as lgb
import numpy as np

_HEADER = """tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx={last}
feature_names={names}
feature_infos={infos}

"""
_TREE = """Tree=0
num_leaves=2
num_cat=0
split_feature={split}
split_gain=0
threshold=0
decision_type=2
left_child=-1
right_child=-2
leaf_value=0 0
leaf_weight=1 1
leaf_count=1 1
internal_value=0
internal_weight=2
internal_count=2
is_linear=1
leaf_const={constant} {constant}
num_features={count} {count}
leaf_features={features} {features}
leaf_coeff={weights} {weights}
shrinkage=1


end of trees
"""


def linear_model_text(weights: np.ndarray, constant: float, names: Sequence[str] = ()) -> str:
    """Return the model whose score is constant + features @ weights (float64, one per feature).

    Features of weight 0 are left out of the function. names: of the features; empty: LightGBM's.
    """
    names = names or [f"Column_{k}" for k in range(weights.size)]
    used = np.flatnonzero(weights)
    header = _HEADER.format(
        last=weights.size - 1,
        names=" ".join(re.sub(r"\s", "_", name) for name in names),  # as LightGBM does
        infos=" ".join(["none"] * weights.size),
    )
    tree = _TREE.format(
        split=int(used[0]) if used.size else 0,
        constant=repr(float(constant)),
        count=used.size,
        features=" ".join(map(str, used)),
        weights=" ".join(repr(float(weight)) for weight in weights[used]),
    )
    return lgb.Booster(model_str=header + tree).model_to_string()


def linear_weights(model_text: str) -> tuple[np.ndarray, float] | None:
    """Return the weights (float64, one per feature) and the constant of such a text, else None."""
    if "\nis_linear=1\n" not in model_text or model_text.count("\nTree=") != 1:
        return None
    fields = dict(line.split("=", 1) for line in model_text.splitlines() if "=" in line)
    features, values = (fields[name].split() for name in ("leaf_features", "leaf_coeff"))
    half = len(features) // 2
    if features[:half] != features[half:] or values[:half] != values[half:]:
        return None  # two leaves with different functions
    weights = np.zeros(int(fields["max_feature_idx"]) + 1)
    weights[np.array(features[:half], np.int64)] = np.array(values[:half], np.float64)
    return weights, float(fields["leaf_const"].split()[0])
