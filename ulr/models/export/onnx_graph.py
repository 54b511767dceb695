"""ONNX: a TreeEnsembleRegressor, or a matrix product. Input `features`, output `score`."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np

from ulr.errors import UserError
from ulr.models.export.forest import Forest, Node, Split

_OPSETS = {"": 17, "ai.onnx.ml": 3}
_IR_VERSION = 8
_INPUT, _OUTPUT = "features", "score"


def trees(forest: Forest) -> bytes:
    """Return the file of a model of trees."""
    helper = _onnx().helper
    attributes: dict[str, list[Any]] = defaultdict(list)
    for number, tree in enumerate(forest.trees):
        _add_tree(attributes, number, tree)
    node = helper.make_node(
        "TreeEnsembleRegressor", [_INPUT], [_OUTPUT], domain="ai.onnx.ml",
        n_targets=1, aggregate_function="SUM", post_transform="NONE", **attributes,
    )  # fmt: skip
    return _model([node], [], forest.names, forest.width)


def linear(names: list[str], weights: np.ndarray, constant: float) -> bytes:
    """Return the file of a linear model. A row with a missing value in its features gets 0."""
    helper, used = _onnx().helper, np.flatnonzero(weights)
    nodes = [
        helper.make_node("Gather", [_INPUT, "used"], ["own"], axis=1),
        helper.make_node("Cast", ["own"], ["wide"], to=_onnx().TensorProto.DOUBLE),
        helper.make_node("MatMul", ["wide", "weights"], ["product"]),
        helper.make_node("Add", ["product", "constant"], ["sum"]),
        helper.make_node("IsNaN", ["own"], ["missing"]),
        helper.make_node("Cast", ["missing"], ["ones"], to=_onnx().TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["ones"], ["any"], axes=[1], keepdims=1),
        helper.make_node("Cast", ["any"], ["incomplete"], to=_onnx().TensorProto.BOOL),
        helper.make_node("Where", ["incomplete", "zero", "sum"], ["result"]),
        helper.make_node("Cast", ["result"], [_OUTPUT], to=_onnx().TensorProto.FLOAT),
    ]
    constants = {
        "used": used.astype(np.int64),
        "weights": weights[used].astype(np.float64)[:, None],
        "constant": np.array([constant], np.float64),
        "zero": np.zeros(1, np.float64),
    }
    initializers = [_onnx().numpy_helper.from_array(v, k) for k, v in constants.items()]
    return _model(nodes, initializers, names, weights.size)


def _onnx() -> Any:
    try:
        import onnx  # noqa: PLC0415 (an extra)
        import onnx.checker  # noqa: PLC0415
    except ModuleNotFoundError:
        raise UserError(
            "the format onnx needs the package onnx; run `pip install 'ulr[onnx]'`"
        ) from None
    return onnx


def _add_tree(attributes: dict[str, list[Any]], number: int, root: Node) -> None:
    """Append the nodes of a tree; a node's number is its place among them."""
    nodes: list[Node] = [root]
    for place, node in enumerate(nodes):  # grows while it is read
        split = node if isinstance(node, Split) else None
        children = (len(nodes), len(nodes) + 1) if split else (0, 0)
        values = {
            "treeids": number,
            "nodeids": place,
            "featureids": split.feature if split else 0,
            "modes": "BRANCH_LEQ" if split else "LEAF",
            "values": split.threshold if split else 0.0,
            "truenodeids": children[0],
            "falsenodeids": children[1],
            "missing_value_tracks_true": int(split.missing_left) if split else 0,
        }
        for name, value in values.items():
            attributes[f"nodes_{name}"].append(value)
        if isinstance(node, Split):
            nodes += [node.left, node.right]
        else:
            leaf = {"treeids": number, "nodeids": place, "ids": 0, "weights": node}
            for name, value in leaf.items():
                attributes[f"target_{name}"].append(value)


def _model(nodes: list[Any], initializers: list[Any], names: list[str], width: int) -> bytes:
    onnx, helper = _onnx(), _onnx().helper
    inputs, outputs = (
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, columns])]
        for name, columns in ((_INPUT, width), (_OUTPUT, 1))
    )
    graph = helper.make_graph(nodes, "ulr", inputs, outputs, initializers)
    opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS.items()]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION,
                              producer_name="ulr")  # fmt: skip
    if names:
        helper.set_model_props(model, {"feature_names": json.dumps(names)})
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))
