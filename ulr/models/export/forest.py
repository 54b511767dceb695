"""The trees of a model text as splits that any engine can follow.

A split sends a value to the left if it is at most the threshold, a float32, and a missing value to
a fixed side. LightGBM has three kinds of missing values: a split of kind None reads NaN as 0, one
of kind Zero sends zeros to the side of the missing values, which takes up to three splits here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from ulr.errors import UserError
from ulr.models.thresholds import BELOW_ZERO, ZERO, float32_thresholds

_CATEGORICAL, _DEFAULT_LEFT = 1, 2  # bits of decision_type
_NONE, _ZERO = 0, 1  # kinds of missing values, in the bits after them


class Split(NamedTuple):
    """A value goes left if it is at most `threshold`; a missing one if `missing_left`."""

    feature: int
    threshold: float
    missing_left: bool
    left: Node
    right: Node


Node: TypeAlias = Split | float  # a float is a leaf's value


class Forest(NamedTuple):
    """The sum of the leaves that a row reaches is its score. names: of all features, or empty."""

    names: list[str]
    width: int
    trees: list[Node]


def read_forest(text: str) -> Forest:
    """Return the trees of a model text that has passed `read_checked`."""
    head, *trees = text.partition("\nend of trees")[0].split("\nTree=")
    width = int(_fields(head)["max_feature_idx"]) + 1
    return Forest(read_names(text), width, [_root(_fields(tree)) for tree in trees])


def read_names(text: str) -> list[str]:
    """Return the feature names of a model text; empty if it was trained without names."""
    names = _fields(text.partition("\nTree=")[0])["feature_names"].split()
    # LightGBM's names of features without names.
    return [] if names == [f"Column_{k}" for k in range(len(names))] else names


def splits(node: Node) -> Iterator[Split]:
    """Yield every split of a tree."""
    todo = [node]
    while todo:
        if isinstance(current := todo.pop(), Split):
            yield current
            todo += [current.right, current.left]


def used_features(forest: Forest) -> list[int]:
    """Return the features of all splits, in order."""
    return sorted({split.feature for tree in forest.trees for split in splits(tree)})


def _root(tree: dict[str, str]) -> Node:
    if tree.get("is_linear") == "1":
        raise UserError("trees with linear leaves cannot be exported; train without linear_tree")
    leaves = [float(value) for value in tree["leaf_value"].split()]
    if len(leaves) == 1:
        return leaves[0]
    types = np.array(tree["decision_type"].split(), np.int64)
    if (types & _CATEGORICAL).any():
        raise UserError(
            "splits on categories cannot be exported; train on numeric features, with a feature "
            "of 0 or 1 for each category"
        )
    features, left, right = (
        [int(value) for value in tree[name].split()]
        for name in ("split_feature", "left_child", "right_child")
    )
    thresholds = _thresholds(tree["threshold"])
    nodes: list[Node] = [0.0] * len(features)
    for n in reversed(range(len(nodes))):  # children have higher numbers than their parent
        children = [nodes[c] if c >= 0 else leaves[~c] for c in (left[n], right[n])]
        nodes[n] = _split(features[n], thresholds[n], int(types[n]), *children)
    return nodes[0]


def _split(feature: int, threshold: float, kind: int, left: Node, right: Node) -> Node:
    missing, default_left = kind >> 2, bool(kind & _DEFAULT_LEFT)
    zero_left = threshold >= 0
    if missing == _NONE:
        return Split(feature, threshold, zero_left, left, right)
    if missing != _ZERO or zero_left == default_left:
        return Split(feature, threshold, default_left, left, right)
    if default_left and threshold == BELOW_ZERO:
        return Split(feature, ZERO, True, left, right)
    if not default_left and threshold == ZERO:
        return Split(feature, BELOW_ZERO, False, left, right)
    # Zeros and missing values leave the others between two splits beside zero.
    zeros = left if default_left else right
    positive = right if default_left else Split(feature, threshold, False, left, right)
    rest = Split(feature, ZERO, True, zeros, positive)
    negative = Split(feature, threshold, False, left, right) if default_left else left
    return Split(feature, BELOW_ZERO, False, negative, rest)


def _thresholds(values: str) -> list[float]:
    thresholds = float32_thresholds(np.array(values.split(), np.float64))
    return np.where(thresholds < np.finfo(np.float32).min, -np.inf, thresholds).tolist()


def _fields(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in text.split("\n"))
    return {name: value for name, sign, value in lines if sign}
