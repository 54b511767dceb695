"""A model text is accepted if LightGBM wrote it, and otherwise refused before LightGBM reads it."""

import json
import random
import subprocess
import sys

import lightgbm as lgb
import numpy as np
import pytest

from ulr.errors import UserError
from ulr.models.check import prediction_text, read_checked
from ulr.models.published import read_model
from ulr.warehouse.tables import Warehouse

PARAMS = {"verbose": -1, "num_leaves": 7}
FEATURES = 4


def trained(categorical=(), **changes):
    rng = np.random.default_rng(0)
    x = rng.random((1500, FEATURES))
    x[:, 1] = rng.integers(0, 9, 1500)
    data = lgb.Dataset(x, x[:, 0] + x[:, 1] % 3, categorical_feature=list(categorical))
    return lgb.train(PARAMS | changes, data, 3).model_to_string()


def squared_error(scores, data):
    return scores - data.get_label(), np.ones(scores.size)


KINDS = {
    "numerical": {},
    "categorical": {"categorical": [1]},
    "linear leaves": {"linear_tree": True},
    "constant": {"min_data_in_leaf": 5000},
    "custom objective": {"objective": squared_error},
}


@pytest.fixture(scope="module")
def texts():
    return {name: trained(**options) for name, options in KINDS.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_what_lightgbm_writes_is_accepted(kind, texts):
    assert read_checked(texts[kind].encode(), kind) == texts[kind]


def tampered(text, draw):
    """Change one place of a text: a character, a passage, a line, a value."""
    kind, place = draw.randrange(6), draw.randrange(text.index("\nparameters:"))
    if kind == 0:
        return text[:place] + draw.choice("0194- \n.=Ae\0") + text[place + 1 :]
    if kind == 1:
        return text[:place] + text[place + draw.randrange(1, 200) :]
    if kind == 2:
        return text[:place]
    lines = text.split("\n")
    line = draw.randrange(len(lines))
    if kind == 3:
        other = draw.randrange(len(lines))
        lines[line], lines[other] = lines[other], lines[line]
    elif kind == 4:
        lines.insert(line, lines[draw.randrange(len(lines))])
    else:
        key, sign, value = lines[line].partition("=")
        values = value.split(" ")
        odd = ["-1", "0", "999999", "nan", "inf", "2147483648", "-2147483649", "", "x", "1e400"]
        values[draw.randrange(len(values))] = draw.choice(odd)
        lines[line] = key + sign + " ".join(values)
    return "\n".join(lines)


USE = """
import json, sys
import lightgbm as lgb, numpy as np
x = np.random.default_rng(0).random((40, 4)) * 9
x[::7] = np.nan
for text in json.load(open(sys.argv[1])):
    try:
        booster = lgb.Booster(model_str=text)
        booster.predict(x)
        booster.model_to_string()
    except (lgb.basic.LightGBMError, ValueError):
        pass
"""


def test_no_tampered_text_that_is_accepted_ends_the_process(texts, tmp_path):
    draw, accepted, refused = random.Random(5), [], 0
    for _ in range(1500):
        text = tampered(draw.choice(list(texts.values())), draw)
        try:
            accepted.append(prediction_text(read_checked(text.encode(), "tampered")))
        except UserError:
            refused += 1
    assert refused > 600
    assert len(accepted) > 100
    (tmp_path / "accepted.json").write_text(json.dumps(accepted))
    command = [sys.executable, "-c", USE, str(tmp_path / "accepted.json")]
    used = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert used.returncode == 0, used.stderr


def replaced(text, key, value, tree=0):
    """Replace the value of a line in a tree."""
    head, *trees = text.split("\nTree=")
    lines = trees[tree].split("\n")
    (at,) = (i for i, line in enumerate(lines) if line.startswith(f"{key}="))
    lines[at] = f"{key}={value}"
    trees[tree] = "\n".join(lines)
    return "\nTree=".join([head, *trees])


def without_sizes(text):
    return "\n".join(line for line in text.split("\n") if not line.startswith("tree_sizes"))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("left_child", "0 -1 -2 -3 -4 -5", "tree 1: a child has a lower number than its parent"),
        ("left_child", "99 -1 -2 -3 -4 -5", "tree 1: a child is outside -7 to 5"),
        ("right_child", "1 2 3", "tree 1: right_child has 3 values, expected 6"),
        ("split_feature", "0 0 0 0 0 4", "tree 1: split_feature is outside 0 to 3"),
        ("leaf_value", "1 2", "tree 1: leaf_value has 2 values, expected 7"),
        ("threshold", "1 2 3 4 5 x", "tree 1: threshold: 'x' is not a number"),
        ("decision_type", "2 2 2 2 2 1", "tree 1: a categorical split has no categories"),
        ("num_leaves", "200000", "tree 1: num_leaves is 200000, expected 1 to 131072"),
    ],
)
def test_the_message_names_the_tree_and_what_is_wrong(texts, key, value, message):
    text = replaced(without_sizes(texts["numerical"]), key, value, tree=1)
    with pytest.raises(UserError) as error:
        read_checked(text.encode(), "m")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "", "the first line is not `tree`"),
        (lambda text: text[:900], "is missing"),
        (lambda text: text.replace("version=v4", "version=v9"), "version is v9"),
        (lambda text: text.replace("num_class=1", "num_class=3"), "num_class is 3, expected 1"),
        (
            lambda text: text.replace("shrinkage=0.1", "shrinkage=0.10", 1),
            "tree_sizes do not match",
        ),
        (lambda text: text.replace("Tree=1", "Tree=7"), "its number is '7'"),
    ],
)
def test_a_text_that_is_not_a_whole_model_is_refused(texts, change, message):
    with pytest.raises(UserError) as error:
        read_checked(change(texts["numerical"]).encode(), "m")
    assert message in str(error.value)


def test_a_file_is_checked_when_it_is_read(texts, tmp_path):
    path = tmp_path / "model.txt"
    warehouse = Warehouse(f"{tmp_path}/warehouse")
    path.write_text(texts["numerical"])
    assert read_model(warehouse, str(path)) == texts["numerical"]
    path.write_text(texts["numerical"][:900])
    with pytest.raises(UserError, match="is not a valid LightGBM text model"):
        read_model(warehouse, str(path))
    path.write_bytes(b"tree\n\xff\xfe")
    with pytest.raises(UserError, match="byte 5 is not UTF-8"):
        read_model(warehouse, str(path))
