"""LightGBM's text models, freed of how they were trained, and put one after the other.

Two things in the text depend on the number of workers and not on the model: settings of the
network, and rows per node, which one process counts and several estimate from Hessians. The first
are left out; the second are written for all as the node's share of the Hessian times all rows.
"""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
from lightgbm.basic import _LIB, _safe_call

_NOT_THE_MODEL = ("tree_learner", "num_machines", "local_listen_port", "time_out", "machines",
                  "machine_list_filename", "num_threads", "feature_fraction_seed", "device_type",
                  "min_data_in_leaf",
                  "gpu_platform_id", "gpu_device_id", "num_gpu", "gpu_use_dp")  # fmt: skip


def plain_model(text: str, rows: int) -> str:
    """The model as any number of workers would have written it."""
    head, *trees = text.split("\nTree=")
    lines = [line for line in head.split("\n") if not line.startswith("tree_sizes=")]
    if trees:
        last, end, tail = trees[-1].partition("\nend of trees")
        trees = [_plain_tree(tree, rows) for tree in (*trees[:-1], last)]
        trees[-1] += end + _without_settings(tail)
    return _saved(_loaded("\nTree=".join(["\n".join(lines), *trees])))


def join_models(first: str, second: str) -> str:
    """The trees of both, in order; either may be empty."""
    if not (first and second):
        return first or second
    joined, before = _loaded(second), _loaded(first)
    _safe_call(_LIB.LGBM_BoosterMerge(joined._handle, before._handle))
    return _saved(joined)


def _loaded(text: str) -> lgb.Booster:
    return lgb.Booster(model_str=text)


def _saved(booster: lgb.Booster) -> str:
    return booster.model_to_string(num_iteration=-1)


def _without_settings(tail: str) -> str:
    dropped = tuple(f"[{name}: " for name in _NOT_THE_MODEL)
    return "\n".join(line for line in tail.split("\n") if not line.startswith(dropped))


def _plain_tree(tree: str, rows: int) -> str:
    """A tree with rows as any number of workers would give them."""
    lines = [line.partition("=") for line in tree.split("\n")]
    fields = {name: value.split() for name, sign, value in lines if sign}
    if not fields.get("leaf_weight"):
        return tree
    children = [list(map(int, fields[name])) for name in ("left_child", "right_child")]
    leaves, nodes = _rows(np.array(fields["leaf_weight"], np.float64), children, rows)
    new = {"leaf_count": map(str, leaves), "internal_count": map(str, nodes)}
    return "\n".join(
        f"{name}={' '.join(new[name])}" if name in new else name + sign + value
        for name, sign, value in lines
    )


def _rows(weight: np.ndarray, children: list[list[int]], rows: int) -> tuple[list[int], list[int]]:
    """Rows of every leaf and node, by their share of the Hessian; a leaf has one at least."""
    total = weight.sum()
    leaves = np.rint(weight * (rows / total)) if total > 0 else np.zeros(weight.size)
    leaves = np.maximum(leaves, 1).astype(np.int64).tolist()
    nodes = [0] * len(children[0])
    for node in reversed(range(len(nodes))):  # a node is younger than its parent
        below = (side[node] for side in children)
        nodes[node] = sum(nodes[c] if c >= 0 else leaves[~c] for c in below)
    return leaves, nodes
