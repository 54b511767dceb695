"""LightGBM's text models without traces of how many workers trained them, and concatenated.

Two parts of the text depend on the number of workers and not on the model: settings of the network,
and rows per node, which one process counts and several estimate from Hessians. The first are
removed. The second are replaced by the node's fraction of the Hessian times all rows.

A finished model is text that other tools read too: it names an objective that they know, and its
thresholds are float32.
"""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
from lightgbm.basic import _LIB, _safe_call

from ulr.models.thresholds import float32_thresholds

OBJECTIVE = "lambdarank"  # scores are the sum of the leaves, as those of our objectives
_REMOVED_SETTINGS = (
    "tree_learner", "num_machines", "local_listen_port", "time_out", "machines",
    "machine_list_filename", "num_threads", "feature_fraction_seed", "device_type",
    "min_data_in_leaf", "gpu_platform_id", "gpu_device_id", "num_gpu", "gpu_use_dp",
)  # fmt: skip


def normalize_model(text: str, rows: int) -> str:
    """Return the model as any number of workers would have written it; rows: in all."""
    head, *trees = text.split("\nTree=")
    lines = [line for line in head.split("\n") if not line.startswith("tree_sizes=")]
    if trees:
        last, end, tail = trees[-1].partition("\nend of trees")
        trees = [_normalize_tree(tree, rows) for tree in (*trees[:-1], last)]
        trees[-1] += end + _without_settings(tail)
    return _dump(_load("\nTree=".join(["\n".join(lines), *trees])))


def finished_model(text: str) -> str:
    """Return the model with an objective and float32 thresholds; its scores do not change.

    A linear ranker keeps its text: without an objective, tools that would read its leaves as
    constants refuse it.
    """
    if "\nis_linear=1\n" in text:
        return text
    lines = (_finished_line(line) for line in text.split("\n"))
    return _dump(_load("\n".join(line for line in lines if line is not None)))


def _finished_line(line: str) -> str | None:
    """Return the line of a finished model, or None without one."""
    name, _, value = line.partition("=")
    if name in ("objective", "tree_sizes"):
        return None
    if name == "max_feature_idx":
        return f"{line}\nobjective={OBJECTIVE}"
    if name == "threshold":
        thresholds = float32_thresholds(np.array(value.split(), np.float64))
        return f"threshold={' '.join(map(repr, thresholds.tolist()))}"
    return f"[objective: {OBJECTIVE}]" if line.startswith("[objective: ") else line


def join_models(first: str, second: str) -> str:
    """Return one model with the trees of both, in order; either may be empty."""
    if not (first and second):
        return first or second
    joined, before = _load(second), _load(first)
    _safe_call(_LIB.LGBM_BoosterMerge(joined._handle, before._handle))
    return _dump(joined)


def _load(text: str) -> lgb.Booster:
    return lgb.Booster(model_str=text)


def _dump(booster: lgb.Booster) -> str:
    return booster.model_to_string(num_iteration=-1)


def _without_settings(tail: str) -> str:
    removed = tuple(f"[{name}: " for name in _REMOVED_SETTINGS)
    return "\n".join(line for line in tail.split("\n") if not line.startswith(removed))


def _normalize_tree(tree: str, rows: int) -> str:
    lines = [line.partition("=") for line in tree.split("\n")]
    fields = {name: value.split() for name, sign, value in lines if sign}
    if not fields.get("leaf_weight"):
        return tree
    children = [list(map(int, fields[name])) for name in ("left_child", "right_child")]
    leaves, nodes = _node_rows(np.array(fields["leaf_weight"], np.float64), children, rows)
    new = {"leaf_count": map(str, leaves), "internal_count": map(str, nodes)}
    return "\n".join(
        f"{name}={' '.join(new[name])}" if name in new else name + sign + value
        for name, sign, value in lines
    )


def _node_rows(
    weight: np.ndarray, children: list[list[int]], rows: int
) -> tuple[list[int], list[int]]:
    """Return rows of every leaf and inner node by their fraction of the Hessian, at least 1."""
    total = weight.sum()
    leaves = np.rint(weight * (rows / total)) if total > 0 else np.zeros(weight.size)
    leaves = np.maximum(leaves, 1).astype(np.int64).tolist()
    nodes = [0] * len(children[0])
    for node in reversed(range(len(nodes))):  # children have higher numbers than their parent
        below = (side[node] for side in children)
        nodes[node] = sum(nodes[c] if c >= 0 else leaves[~c] for c in below)
    return leaves, nodes
