"""Tampered model files: each must be refused with one line, or give scores; never end the process.

The check is the one that `ulr score --model FILE` makes. LightGBM then loads the text and predicts
in the process of the fault, so that a signal or an endless loop is counted.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np

from tests.bench.faults.campaign import Fault, Kind, Result, crashed, seeded, survived
from ulr.errors import UserError
from ulr.models.booster import load_scorer
from ulr.models.check import read_checked

_WIDTH = 6
_EXTREMES = ("-1", "2147483647", "4294967296", "99999999999999999999", "1e309", "1e-320", "nan",
             "-inf", "0", "", "x", "1 1", "-2147483648", "0x10")  # fmt: skip
_NUMBER = re.compile(rb"(?<=[ =])-?[0-9][0-9.e+-]*(?=[ \n])")
_LIMIT_S = 30.0  # scores of a valid model take milliseconds

Tampering = Callable[[bytes, random.Random], bytes]


@contextlib.contextmanager
def prepare(folder: Path) -> Iterator[dict[str, bytes]]:
    """Train a plain, a linear and a categorical model."""
    yield {
        "plain": _train({}),
        "linear": _train({"linear_tree": True}),
        "categorical": _train({"min_data_per_group": 5}, categorical=[0, 1]),
    }


def faults(models: dict[str, bytes], seed: int, quick: bool) -> list[Fault]:
    """Return every kind of tampering with every model, several times if it is random."""
    repeats = 1 if quick else 4
    names = [
        (f"{model}-{tampering}-{n}", model, tampering)
        for model in (["plain"] if quick else models)
        for tampering, random_places in _TAMPERINGS
        for n in range(repeats if random_places else 1)
    ]
    tampered = [
        (name, model, _BY_NAME[tampering](models[model], seeded(seed, "models", name)))
        for name, model, tampering in names
    ]
    return [
        Fault("models", name, partial(_score, content, seed, name), _LIMIT_S)
        for name, model, content in tampered
        if content != models[model]  # a plain model has no categories to tamper with
    ]


def _score(content: bytes, seed: int, name: str, folder: Path) -> Result:
    try:
        score = load_scorer(read_checked(content, name), name)
        scores = score(_matrix(np.random.default_rng(seed), 500))
    except UserError as error:
        lines = str(error).splitlines()
        return survived(f"refused: {lines[0][:150]}") if len(lines) == 1 else crashed(str(lines))
    return survived(f"accepted, {np.isfinite(scores).sum()} of {scores.size} scores are finite")


def _train(parameters: dict[str, Any], categorical: Sequence[int] = ()) -> bytes:
    rng = np.random.default_rng(1)
    x = _matrix(rng, 800)
    x = np.nan_to_num(x, nan=0, posinf=3, neginf=-3)
    x[:, :2] = rng.integers(0, 40, (800, 2))
    settings = {"objective": "regression", "verbose": -1, "num_leaves": 12, "num_threads": 1}
    y = np.sin(x[:, 0]) + x[:, 2] * x[:, 3]
    booster = lgb.train(
        settings | parameters, lgb.Dataset(x, y, categorical_feature=list(categorical)), 6
    )
    return booster.model_to_string().encode()


def _matrix(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Return float32 features with missing and infinite values."""
    x = rng.normal(size=(rows, _WIDTH)).astype(np.float32)
    x[rng.random(x.shape) < 0.05] = np.nan
    x[rng.random(x.shape) < 0.02] = np.inf
    x[rng.random(x.shape) < 0.02] = -1e30
    return x


def _truncate(model: bytes, rng: random.Random) -> bytes:
    return model[: rng.randrange(len(model))]


def _flip_bit(model: bytes, rng: random.Random) -> bytes:
    content = bytearray(model)
    content[_place(model, rng)] ^= 1 << rng.randrange(8)
    return bytes(content)


def _random_bytes(model: bytes, rng: random.Random) -> bytes:
    at = _place(model, rng)
    return model[:at] + rng.randbytes(rng.randrange(1, 40)) + model[at + rng.randrange(20) :]


def _swap_numbers(model: bytes, rng: random.Random) -> bytes:
    first, second = sorted(rng.sample(_numbers(model), 2), key=lambda m: m.start())
    return b"".join((model[: first.start()], second[0], model[first.end() : second.start()],
                     first[0], model[second.end() :]))  # fmt: skip


def _extreme_number(model: bytes, rng: random.Random) -> bytes:
    number = rng.choice(_numbers(model))
    value = rng.choice(_EXTREMES).encode()
    return model[: number.start()] + value + model[number.end() :]


def _extreme_in(key: str, model: bytes, rng: random.Random) -> bytes:
    """Replace one value of the lines `key=...`, and correct tree_sizes so that it is read."""
    lines = list(re.finditer(rf"(?m)^{key}=(.*)$".encode(), model))
    if not lines:
        return model
    line = rng.choice(lines)
    values = line[1].split(b" ")
    values[rng.randrange(len(values))] = rng.choice(_EXTREMES).encode()
    return _with_sizes(model[: line.start(1)] + b" ".join(values) + model[line.end(1) :])


def _cycle(model: bytes, rng: random.Random) -> bytes:
    """Let a child be one of its ancestors, so that a prediction never reaches a leaf."""
    line = rng.choice(list(re.finditer(rb"(?m)^(left|right)_child=(.*)$", model)))
    values = line[2].split(b" ")
    at = rng.randrange(len(values))
    values[at] = str(rng.randrange(at + 1)).encode()
    return _with_sizes(model[: line.start(2)] + b" ".join(values) + model[line.end(2) :])


def _all_to_root(model: bytes, rng: random.Random) -> bytes:
    """Let every child be the root."""

    def zeros(line: re.Match[bytes]) -> bytes:
        return line[1] + b" ".join([b"0"] * len(line[2].split()))

    return _with_sizes(re.sub(rb"(?m)^((?:left|right)_child=)(.*)$", zeros, model))


def _drop_line(model: bytes, rng: random.Random) -> bytes:
    lines = _tree_part(model).split(b"\n")
    del lines[rng.randrange(len(lines))]
    return _with_sizes(b"\n".join(lines) + model[len(_tree_part(model)) :])


def _double_line(model: bytes, rng: random.Random) -> bytes:
    lines = _tree_part(model).split(b"\n")
    lines.insert(rng.randrange(len(lines)), rng.choice(lines))
    return _with_sizes(b"\n".join(lines) + model[len(_tree_part(model)) :])


def _wrong_sizes(model: bytes, rng: random.Random) -> bytes:
    return _extreme_in_raw("tree_sizes", model, rng)


def _extreme_in_raw(key: str, model: bytes, rng: random.Random) -> bytes:
    def replaced(line: re.Match[bytes]) -> bytes:
        values = line[2].split(b" ")
        values[rng.randrange(len(values))] = rng.choice(_EXTREMES).encode()
        return line[1] + b" ".join(values)

    return re.sub(rf"(?m)^({key}=)(.*)$".encode(), replaced, model, count=1)


def _drop_tree(model: bytes, rng: random.Random) -> bytes:
    parts = model.split(b"\nTree=")
    del parts[rng.randrange(1, len(parts) - 1)]
    return b"\nTree=".join(parts)


def _empty(model: bytes, rng: random.Random) -> bytes:
    return b""


def _numbers(model: bytes) -> list[re.Match[bytes]]:
    return list(_NUMBER.finditer(model[: len(_tree_part(model))]))


def _place(model: bytes, rng: random.Random) -> int:
    return rng.randrange(len(_tree_part(model)))


def _tree_part(model: bytes) -> bytes:
    return model[: model.index(b"end of trees")]


def _with_sizes(model: bytes) -> bytes:
    """Return the model with the tree_sizes that LightGBM would have written for its trees."""
    body, end, rest = model.partition(b"end of trees")
    _, *trees = body.split(b"\nTree=")
    sizes = b" ".join(str(len(b"Tree=" + tree + b"\n")).encode() for tree in trees)
    return re.sub(rb"(?m)^tree_sizes=.*$", b"tree_sizes=" + sizes, body) + end + rest


_KEYS = ("num_leaves", "num_cat", "split_feature", "decision_type", "left_child", "threshold",
         "leaf_value", "cat_boundaries", "cat_threshold", "is_linear", "num_features",
         "leaf_features", "leaf_coeff", "max_feature_idx", "num_class",
         "feature_infos")  # fmt: skip
# The name, the function, and whether it depends on the random numbers.
_ALL: list[tuple[str, Tampering, bool]] = [
    ("truncated", _truncate, True),
    ("flipped-bit", _flip_bit, True),
    ("random-bytes", _random_bytes, True),
    ("swapped-numbers", _swap_numbers, True),
    ("extreme-number", _extreme_number, True),
    ("cycle", _cycle, True),
    ("all-to-root", _all_to_root, False),
    ("missing-line", _drop_line, True),
    ("double-line", _double_line, True),
    ("wrong-sizes", _wrong_sizes, True),
    ("missing-tree", _drop_tree, False),
    ("empty", _empty, False),
    *((f"extreme-{key}", partial(_extreme_in, key), False) for key in _KEYS),
]
_TAMPERINGS = [(name, random_places) for name, _, random_places in _ALL]
_BY_NAME: dict[str, Tampering] = {name: tamper for name, tamper, _ in _ALL}
KIND = Kind("models", prepare, faults)
