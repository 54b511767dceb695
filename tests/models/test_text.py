from __future__ import annotations

import struct

import lightgbm as lgb
import numpy as np
import pytest

from ulr.models.text import join_models, normalize_model
from ulr.training.bins import SAMPLE_ROWS, BinnedRows, in_sample, make_reference
from ulr.training.distributed.communicator import Communicator
from ulr.training.distributed.lightgbm_network import ROOT_ROWS, Network

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 4)).astype(np.float32)
Y = X[:, 0] - X[:, 1] ** 2


def grown(trees: int, **settings) -> lgb.Booster:
    settings = {"num_leaves": 6, "verbose": -1, "num_threads": 1, **settings}
    return lgb.train(settings, lgb.Dataset(X, Y), trees)


def test_a_normalized_model_gives_the_same_scores_and_has_no_settings_of_workers():
    booster = grown(5)
    text = normalize_model(booster.model_to_string(), 500)
    np.testing.assert_array_equal(lgb.Booster(model_str=text).predict(X), booster.predict(X))
    assert "num_threads" not in text
    assert "tree_learner" not in text
    assert normalize_model(text, 500) == text


def test_rows_of_the_leaves_of_a_normalized_tree_add_up_to_those_of_its_root():
    text = normalize_model(grown(1).model_to_string(), 500)
    fields = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
    leaves = list(map(int, fields["leaf_count"].split()))
    assert sum(leaves) == int(fields["internal_count"].split()[0])
    assert abs(sum(leaves) - 500) <= len(leaves)


def test_joining_models_keeps_their_order_and_is_associative():
    parts = [normalize_model(grown(n, seed=n).model_to_string(), 500) for n in (2, 3, 1)]
    joined = join_models(join_models(parts[0], parts[1]), parts[2])
    assert joined == join_models(parts[0], join_models(parts[1], parts[2]))
    assert join_models("", parts[0]) == parts[0] == join_models(parts[0], "")
    total = sum(lgb.Booster(model_str=p).predict(X, raw_score=True) for p in parts)
    np.testing.assert_allclose(lgb.Booster(model_str=joined).predict(X), total, rtol=1e-12)


def test_rows_of_a_root_are_told_in_fine_units_and_an_unknown_layout_is_an_error():
    network = Network(Communicator(0, [None], 1.0), rows=300, total_rows=500)
    told = network._in_units(memoryview(struct.pack("ddi4x", 2.5, -1.0, 300)))
    assert struct.unpack("ddi4x", told) == (2.5, -1.0, 300 * (ROOT_ROWS // 500))
    with pytest.raises(RuntimeError, match="another version"):
        network._in_units(memoryview(bytes(24)))


def test_rows_pushed_in_pieces_are_binned_as_the_whole():
    settings = {"verbose": -1, "num_threads": 1}
    reference = make_reference(X, settings)
    whole, pieces = (BinnedRows(reference, 500, 4, settings) for _ in range(2))
    whole.push(X.reshape(-1))
    for start in range(0, 500, 77):
        pieces.push(X[start : start + 77].reshape(-1))
    grow = {**settings, "objective": "none", "force_col_wise": True}
    texts = []
    for rows in (whole, pieces):
        booster = lgb.Booster(grow, rows.finish())
        booster.update(fobj=lambda scores, _: (scores - Y, np.ones(500)))
        texts.append(booster.model_to_string())
    assert texts[0] == texts[1]


def test_the_sample_does_not_depend_on_where_queries_lie(monkeypatch):
    monkeypatch.setattr("ulr.training.bins.SAMPLE_ROWS", 300)
    keys = RNG.integers(0, 2**63, 200).astype(np.uint64)
    sizes = RNG.integers(1, 20, 200)
    total = int(sizes.sum())
    inside = in_sample(keys, sizes, total)
    order = RNG.permutation(200)
    moved = in_sample(keys[order], sizes[order], total)
    by_query = np.split(inside, np.cumsum(sizes)[:-1])
    np.testing.assert_array_equal(np.concatenate([by_query[q] for q in order]), moved)
    assert 200 < inside.sum() < 400
    assert in_sample(keys, sizes, 300).all()
    assert SAMPLE_ROWS == 200_000
