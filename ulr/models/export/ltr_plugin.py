"""The Learning to Rank plugin of OpenSearch and Elasticsearch: the body of `_createmodel`.

Trees are of the type `model/xgboost+json`. The plugin sends x to the left if x < split_condition,
both float32, and since OpenSearch 3.7 a missing feature to the node `missing`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np

from ulr.models.export.forest import Forest, Node, Split
from ulr.models.thresholds import next_above


def trees(forest: Forest, name: str) -> str:
    """Return the body for a model of trees."""
    definition = [_node(tree, forest.names, count(), 0) for tree in forest.trees]
    return _body(name, "model/xgboost+json", definition)


def linear(names: list[str], weights: np.ndarray, name: str) -> str:
    """Return the body for a linear model; the plugin adds no constant."""
    used = np.flatnonzero(weights).tolist()
    return _body(name, "model/linear", {names[k]: float(weights[k]) for k in used})


def _body(name: str, kind: str, definition: Any) -> str:
    model = {"name": name, "model": {"type": kind, "definition": definition}}
    return json.dumps({"model": model}, allow_nan=False) + "\n"


def _node(node: Node, names: list[str], numbers: Iterator[int], depth: int) -> dict[str, Any]:
    number = next(numbers)
    if not isinstance(node, Split):
        return {"nodeid": number, "leaf": node}
    children = [_node(child, names, numbers, depth + 1) for child in (node.left, node.right)]
    yes, no = (child["nodeid"] for child in children)
    return {
        "nodeid": number,
        "depth": depth,
        "split": names[node.feature],
        "split_condition": next_above(node.threshold),
        "yes": yes,
        "no": no,
        "missing": yes if node.missing_left else no,
        "children": children,
    }
