"""The evaluators of search engines, re-stated: files in, scores of float32 rows out.

Each follows the engine's source: what it parses, in which precision, and which side a missing
value takes. Rows are float32; names: of their columns.
"""

from __future__ import annotations

import json

import numpy as np

F = np.float32


def plugin_scores(content, rows, names, *, feature_set=None):
    """OpenSearch and Elasticsearch: XGBoostJsonParser, NaiveAdditiveDecisionTree, LinearRanker."""
    body = json.loads(content)["model"]
    assert body.keys() == {"name", "model"}
    kind, definition = body["model"]["type"], body["model"]["definition"]
    known = names if feature_set is None else feature_set
    if kind == "model/linear":
        assert set(definition) <= set(known)
        weights = np.array([definition.get(name, 0.0) for name in names], F)
        return float32_sum([rows[:, k] * w for k, w in enumerate(weights)])
    assert kind == "model/xgboost+json"
    allowed = {"nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "leaf",
               "children"}  # fmt: skip

    def leaf(node, row):
        assert node.keys() <= allowed  # the parser is strict
        if "leaf" in node:
            return F(node["leaf"])
        left, right = node["children"]
        assert (node["yes"], node["no"]) == (left["nodeid"], right["nodeid"])
        assert node["missing"] in (node["yes"], node["no"])
        assert {"nodeid", "depth"} <= node.keys()
        assert node["split"] in known
        value = row[names.index(node["split"])]
        if np.isnan(value):
            return leaf(left if node["missing"] == node["yes"] else right, row)
        return leaf(left if as_float(node["split_condition"]) > value else right, row)

    return float32_sum([[leaf(tree, row) for row in rows] for tree in definition])


def solr_scores(content, rows, names):
    """Solr 9.2 and later: MultipleAdditiveTreesModel, LinearModel, StandardNormalizer."""
    model = json.loads(content)
    rows, columns = rows.copy(), {}
    for feature in model["features"]:
        columns[feature["name"]] = k = names.index(feature["name"])
        if norm := feature.get("norm"):
            assert norm["class"] == "org.apache.solr.ltr.norm.StandardNormalizer"
            avg, std = (F(norm["params"][p]) for p in ("avg", "std"))
            assert std > 0
            with np.errstate(over="ignore"):
                rows[:, k] = np.where(np.isnan(rows[:, k]), rows[:, k], (rows[:, k] - avg) / std)
    kind, params = model["class"].rpartition(".")[2], model["params"]
    if kind == "LinearModel":
        assert params["weights"].keys() == columns.keys()
        return float32_sum([rows[:, columns[n]] * F(w) for n, w in params["weights"].items()])
    assert kind == "MultipleAdditiveTreesModel"
    assert params["isNullSameAsZero"] is False

    def leaf(node, row):
        if "feature" not in node:
            return F(node["value"])
        value, slack = row[columns[node["feature"]]], F(1e-6)
        threshold = F(float(node["threshold"])) + slack  # a string, so parseFloat
        if value <= threshold:
            return leaf(node["left"], row)
        if value > threshold:
            return leaf(node["right"], row)
        return leaf(node["left" if node["missing"] == "left" else "right"], row)

    return float32_sum(
        [[F(tree["weight"]) * leaf(tree["root"], row) for row in rows] for tree in params["trees"]]
    )


def vespa_scores(content, rows, names):
    """Vespa: LightGBMParser's expression, in double precision as in the container."""
    model = json.loads(content)
    assert isinstance(model["objective"], str)
    assert model["pandas_categorical"] == []
    assert model["feature_names"] == names

    def leaf(node, row):
        if "left_child" not in node:
            return node["leaf_value"]
        assert node["decision_type"] == "<="
        value, threshold = float(row[node["split_feature"]]), float(node["threshold"])
        true = not value >= threshold if node["default_left"] else value < threshold
        return leaf(node["left_child" if true else "right_child"], row)

    trees = [tree["tree_structure"] for tree in model["tree_info"]]
    return np.sum([[leaf(tree, row) for row in rows] for tree in trees], axis=0)


def onnx_scores(content, rows, _names):
    """Return the scores of onnxruntime itself."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (scores,) = session.run(["score"], {"features": rows})
    return scores[:, 0].astype(np.float64)


SCORES = {"opensearch": plugin_scores, "elasticsearch": plugin_scores, "solr": solr_scores,
          "vespa": vespa_scores, "onnx": onnx_scores}  # fmt: skip


def as_float(number):
    """Return a number of a JSON text as Java's float."""
    with np.errstate(over="ignore"):
        return np.float64(number).astype(F)


def float32_sum(terms):
    """Add terms one by one in float32, as a Java loop does."""
    total = np.zeros(len(terms[0]), F)
    for term in terms:
        total += np.asarray(term, F)
    return total.astype(np.float64)
