"""Vespa: a file in the layout of LightGBM's `dump_model`, for the feature `lightgbm(FILE)`.

Vespa tests x < threshold, and sends a missing value to the left if `default_left`, whatever the
kind of missing values. Threshold and `default_left` are written for that test.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ulr.errors import UserError
from ulr.models.export.forest import Forest, Node, Split, used_features
from ulr.models.text import OBJECTIVE
from ulr.models.thresholds import next_above

# A name, arguments, which may have arguments, and an output.
_RANK_FEATURE = re.compile(r"[A-Za-z_]\w*(\(([^()]|\([^()]*\))*\))?(\.\w+)*", re.ASCII)


def trees(forest: Forest) -> str:
    """Return the file of a model of trees."""
    for feature in used_features(forest):
        _check_name(forest.names[feature])
    infos = [{"tree_index": k, "tree_structure": _node(t)} for k, t in enumerate(forest.trees)]
    content = {
        "name": "tree",
        "version": "v4",
        "num_class": 1,
        "num_tree_per_iteration": 1,
        "max_feature_idx": forest.width - 1,
        "objective": OBJECTIVE,
        "feature_names": forest.names,
        "tree_info": infos,
        "pandas_categorical": [],
    }
    return json.dumps(content, allow_nan=False) + "\n"


def _check_name(name: str) -> None:
    if not _RANK_FEATURE.fullmatch(name):
        raise UserError(
            f"Vespa would not read {name!r} as a rank feature, such as bm25(title), or as the name "
            "of a function (letters, digits and _); rename the feature in features.columns and "
            "train again, or export to another format"
        )


def _node(node: Node) -> dict[str, Any]:
    if not isinstance(node, Split):
        return {"leaf_value": node}
    return {
        "split_feature": node.feature,
        "threshold": next_above(node.threshold),
        "decision_type": "<=",
        "default_left": node.missing_left,
        "missing_type": "NaN",
        "left_child": _node(node.left),
        "right_child": _node(node.right),
    }
