"""The formats that models are exported to."""

from __future__ import annotations

import numpy as np

from ulr.errors import UserError
from ulr.models.export import ltr_plugin, onnx_graph, solr, vespa
from ulr.models.export.forest import read_forest, read_names
from ulr.models.linear import linear_weights

# The name of each format's file in the registry.
FILES = {"opensearch": "opensearch.json", "elasticsearch": "elasticsearch.json",
         "solr": "solr.json", "vespa": "vespa.json", "onnx": "model.onnx"}  # fmt: skip
_WITHOUT_NAMES = ("onnx",)


def export_model(text: str, form: str, name: str) -> bytes:
    """Return the file of a model in a format.

    text: LightGBM's, which has passed `read_checked`. name: of the model in the engine.
    """
    try:
        return _export(text, form, name)
    except RecursionError:
        raise UserError(
            f"a tree of the model is too deep for the format {form}; train with a lower "
            "lightgbm.max_depth, such as 64"
        ) from None


def _export(text: str, form: str, name: str) -> bytes:
    if (linear := linear_weights(text)) is not None:
        return _export_linear(text, *linear, form, name)
    forest = read_forest(text)
    _check_names(forest.names, form)
    if form == "onnx":
        return onnx_graph.trees(forest)
    if form == "solr":
        return solr.trees(forest, name).encode()
    if form == "vespa":
        return vespa.trees(forest).encode()
    return ltr_plugin.trees(forest, name).encode()


def _check_names(names: list[str], form: str) -> None:
    if not names and form not in _WITHOUT_NAMES:
        raise UserError(
            f"the model has no feature names, and the format {form} refers to features by name; "
            "name them with features.columns, or in the metadata `names` of the column `features`, "
            "and train again"
        )


def _export_linear(text: str, weights: np.ndarray, constant: float, form: str, name: str) -> bytes:
    names = read_names(text)
    _check_names(names, form)
    if form == "onnx":
        return onnx_graph.linear(names, weights, constant)
    if form == "solr":
        return solr.linear(names, weights, name).encode()
    if form == "vespa":
        terms = " + ".join(f"{weights[k]:.9g} * {names[k]}" for k in np.flatnonzero(weights)[:2])
        raise UserError(
            "Vespa reads trees, and this model is linear; write its weights as a rank expression "
            f"({terms} ...), or train with train.ranker=trees"
        )
    return ltr_plugin.linear(names, weights, name).encode()
