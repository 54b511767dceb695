"""Check the text of a LightGBM model before LightGBM reads it.

LightGBM trusts its text format: wrong lengths, indices or sizes end the process by a signal or send
a prediction into a loop. The trees of a text that passes this check can be loaded and used for
prediction. What follows the trees (parameters) is not checked: `prediction_text` leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from ulr.errors import UserError

END_OF_TREES = "\nend of trees\n"  # what follows is not needed for prediction
MAX_LEAVES = 131_072  # LightGBM's own limit
_MAX_FEATURES = 1_000_000
_CATEGORICAL = 1  # bit of decision_type
_HEADER = {"version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx",
           "objective", "feature_names", "feature_infos", "monotone_constraints",
           "tree_sizes"}  # fmt: skip
_INNER_INTEGERS = ("split_feature", "decision_type", "left_child", "right_child", "internal_count")
_INNER_NUMBERS = ("split_gain", "threshold", "internal_value", "internal_weight")
_TREE = {"num_leaves", "num_cat", "leaf_value", "leaf_weight", "leaf_count", "is_linear",
         "shrinkage", "cat_boundaries", "cat_threshold", "leaf_const", "num_features",
         "leaf_features", "leaf_coeff", *_INNER_INTEGERS, *_INNER_NUMBERS}  # fmt: skip
_REQUIRED = {"num_leaves", "num_cat", "split_feature", "threshold", "decision_type", "left_child",
             "right_child", "leaf_value", "shrinkage"}  # fmt: skip
# LightGBM aborts on other names. Only the scores before any transformation are used.
_OBJECTIVE = re.compile(
    r"(custom|lambdarank|rank_xendcg|regression|regression_l1|huber|fair|poisson|quantile|mape"
    r"|gamma|tweedie|cross_entropy|cross_entropy_lambda)|binary sigmoid:[1-9][0-9]*"
)
_INFO = re.compile(r"none|\[[^\[\]:=]+:[^\[\]:=]+\]|-?[0-9]+(:-?[0-9]+)*")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class _Invalid(ValueError):
    """The first thing that is wrong."""


def read_checked(content: bytes, name: str) -> str:
    """Return the text of a model file; raise UserError unless it is a consistent ranking model.

    name: of the model, for the message.
    """
    try:
        text = content.decode()
        _check(text)
    except UnicodeDecodeError as error:
        raise UserError(
            f"model {name} is not a text file: byte {error.start} is not UTF-8; give the text that "
            "LightGBM's save_model wrote"
        ) from None
    except _Invalid as error:
        raise UserError(
            f"model {name} is not a valid LightGBM text model: {error}; use a file as "
            "LightGBM or `ulr train` wrote it"
        ) from None
    return text


def prediction_text(text: str) -> str:
    """Return a model's header and trees, without the parameters it was trained with."""
    trees, end, _ = text.partition(END_OF_TREES)
    return trees + end


def _check(text: str) -> None:
    if found := _UNPRINTABLE.search(text):
        raise _Invalid(f"it contains the byte {ord(found[0])}")
    head, *trees = text.split("\nTree=")
    if not head.startswith("tree\n"):
        raise _Invalid("the first line is not `tree`")
    header = _fields(head.removeprefix("tree\n"), _HEADER, "the header")
    features = _check_header(header)
    if not trees:
        raise _Invalid("it has no tree")
    trees[-1], end, _ = trees[-1].partition(END_OF_TREES)
    if not end:
        raise _Invalid("the line `end of trees` is missing")
    for number, tree in enumerate(trees):
        try:
            _check_tree(number, tree, features)
        except _Invalid as error:
            raise _Invalid(f"tree {number}: {error}") from None
    _check_sizes(header, trees)


def _fields(text: str, allowed: set[str], where: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in text.rstrip("\n").split("\n"):  # LightGBM stops at an empty line
        key, sign, value = line.partition("=")
        if not sign or ("=" in value and key != "feature_names") or key not in allowed:
            raise _Invalid(f"unexpected line {line[:40]!r} in {where}")
        if key in fields:
            raise _Invalid(f"{key} is given twice in {where}")
        fields[key] = value
    return fields


def _check_header(header: Mapping[str, str]) -> int:
    """Check the header and return the number of features."""
    if header.get("version") not in ("v3", "v4"):
        raise _Invalid(f"version is {header.get('version')}, expected v3 or v4")
    for key in ("num_class", "num_tree_per_iteration"):
        if header.get(key) != "1":
            raise _Invalid(f"{key} is {header.get(key)}, expected 1: the model must give one score")
    features = _integer(header, "max_feature_idx", 0, _MAX_FEATURES) + 1
    _integer(header, "label_index", 0, _MAX_FEATURES)
    for key in ("feature_names", "feature_infos", "monotone_constraints"):
        if key in header and len(header[key].split()) != features:
            raise _Invalid(f"{key} has {len(header[key].split())} values, expected {features}")
    if "feature_names" not in header or "feature_infos" not in header:
        raise _Invalid("feature_names or feature_infos are missing")
    if not all(_INFO.fullmatch(info) for info in header["feature_infos"].split()):
        raise _Invalid("feature_infos are not ranges, categories or `none`")
    if "objective" in header and not _OBJECTIVE.fullmatch(header["objective"]):
        raise _Invalid(f"objective is {header['objective'][:40]!r}")
    return features


def _check_sizes(header: Mapping[str, str], trees: list[str]) -> None:
    """LightGBM finds the trees by these sizes and not by their names."""
    if "tree_sizes" not in header:
        return
    sizes = [len(f"Tree={tree}\n".encode()) for tree in trees]
    if sizes != [int(size) for size in _texts(header["tree_sizes"], re.compile(r"[0-9]{1,12}"))]:
        raise _Invalid("tree_sizes do not match the trees")


def _check_tree(number: int, text: str, features: int) -> None:
    first, _, rest = text.partition("\n")
    if first != str(number):
        raise _Invalid(f"its number is {first[:20]!r}")
    tree = _fields(rest, _TREE, "the tree")
    if missing := sorted(_REQUIRED - tree.keys()):
        raise _Invalid(f"{missing[0]} is missing")
    leaves = _integer(tree, "num_leaves", 1, MAX_LEAVES)
    inner = leaves - 1
    numbers = {key: _integers(tree, key, inner) for key in _INNER_INTEGERS if key in tree}
    for key in _INNER_NUMBERS:
        if key in tree:
            _numbers(tree, key, inner)
    _numbers(tree, "leaf_value", leaves)
    _numbers(tree, "shrinkage", 1)
    for key in ("leaf_weight", "leaf_count"):
        if tree.get(key, "").strip():
            _numbers(tree, key, leaves)
    _in_range("split_feature", numbers["split_feature"], 0, features)
    _in_range("decision_type", numbers["decision_type"], 0, 16)
    _check_children(numbers["left_child"], numbers["right_child"])
    _check_categories(tree, numbers["decision_type"])
    _check_linear(tree, leaves, features)


def _check_children(left: np.ndarray, right: np.ndarray) -> None:
    """Every inner node but the first, and every leaf, has one parent with a lower number."""
    inner = left.size
    children = np.concatenate([left, right])
    parents = np.tile(np.arange(inner), 2)
    _in_range("a child", children, -inner - 1, inner)
    below = children >= 0
    if (children[below] <= parents[below]).any():
        raise _Invalid("a child has a lower number than its parent")
    if np.unique(children).size != 2 * inner or (inner and (children == 0).any()):
        raise _Invalid("a node has two parents, or none")


def _check_categories(tree: Mapping[str, str], decision_type: np.ndarray) -> None:
    count = _integer(tree, "num_cat", 0, MAX_LEAVES)
    at = (decision_type & _CATEGORICAL) == 1
    if count:
        bounds = _integers(tree, "cat_boundaries", count + 1)
        if bounds[0] != 0 or (np.diff(bounds) < 1).any():
            raise _Invalid("cat_boundaries do not increase from 0")
        words = _integers(tree, "cat_threshold", int(bounds[-1]))
        _in_range("cat_threshold", words, 0, 2**32)
    threshold = _numbers(tree, "threshold", decision_type.size)[at]
    if ((threshold != np.floor(threshold)) | (threshold < 0) | (threshold >= count)).any():
        raise _Invalid("a categorical split has no categories")


def _check_linear(tree: Mapping[str, str], leaves: int, features: int) -> None:
    if tree.get("is_linear", "0") not in ("0", "1"):
        raise _Invalid(f"is_linear is {tree['is_linear'][:20]!r}")
    if tree.get("is_linear") != "1":
        return
    _numbers(tree, "leaf_const", leaves)
    counts = _integers(tree, "num_features", leaves)
    _in_range("num_features", counts, 0, features + 1)
    used = _integers(tree, "leaf_features", int(counts.sum()))
    _in_range("leaf_features", used, 0, features)
    _numbers(tree, "leaf_coeff", int(counts.sum()))


def _integer(fields: Mapping[str, str], key: str, low: int, high: int) -> int:
    value = int(_integers(fields, key, 1)[0])
    if not low <= value <= high:
        raise _Invalid(f"{key} is {value}, expected {low} to {high}")
    return value


_INTEGER = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]{1,4})?|-?(inf|nan)", re.I)


def _integers(fields: Mapping[str, str], key: str, size: int) -> np.ndarray:
    return np.array([int(v) for v in _values(fields, key, size, _INTEGER)], np.int64)


def _numbers(fields: Mapping[str, str], key: str, size: int) -> np.ndarray:
    texts = _values(fields, key, size, _NUMBER)
    values = np.array([float(v) for v in texts], np.float64)
    # LightGBM's conversion throws where a number overflows or loses precision.
    overflow = np.isinf(values) & np.array([not v.lower().endswith("inf") for v in texts], bool)
    if (overflow | ((values != 0) & (np.abs(values) < np.finfo(float).tiny))).any():
        raise _Invalid(f"{key} has a number that does not fit a double")
    return values


def _values(fields: Mapping[str, str], key: str, size: int, form: re.Pattern[str]) -> list[str]:
    if key not in fields:
        raise _Invalid(f"{key} is missing")
    try:
        values = list(_texts(fields[key], form))
    except _Invalid as error:
        raise _Invalid(f"{key}: {error}") from None
    if len(values) != size:
        raise _Invalid(f"{key} has {len(values)} values, expected {size}")
    return values


def _texts(text: str, form: re.Pattern[str]) -> Iterator[str]:
    for value in text.split():
        if not form.fullmatch(value):
            raise _Invalid(f"{value[:40]!r} is not a number")
        yield value


def _in_range(name: str, values: np.ndarray, low: int, high: int) -> None:
    if values.size and (values.min() < low or values.max() >= high):
        raise _Invalid(f"{name} is outside {low} to {high - 1}")
