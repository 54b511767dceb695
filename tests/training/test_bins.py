from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest

from ulr.errors import UserError
from ulr.training.bins import SAMPLE_ROWS, BinnedRows, in_sample, make_bins

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 4)).astype(np.float32)
Y = X[:, 0] - X[:, 1] ** 2


def test_rows_pushed_in_batches_get_the_bins_of_rows_pushed_at_once():
    settings = {"verbose": -1, "num_threads": 1}
    bins = make_bins(X, settings)
    at_once, batches = (BinnedRows(bins, 500) for _ in range(2))
    at_once.push(X)
    for start in range(0, 500, 77):
        batches.push(X[start : start + 77])
    settings |= {"objective": "none", "force_col_wise": True}
    texts = []
    for rows in (at_once, batches):
        booster = lgb.Booster(settings, rows.finish())
        booster.update(fobj=lambda scores, _: (scores - Y, np.ones(500)))
        texts.append(booster.model_to_string())
    assert texts[0] == texts[1]


def test_the_sample_does_not_depend_on_the_order_of_queries(monkeypatch):
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


def test_there_must_be_as_many_names_as_features():
    with pytest.raises(UserError, match=rf"names 2 features and its rows have {X.shape[1]}"):
        make_bins(X, {}, ["a", "b"])
