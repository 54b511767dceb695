from __future__ import annotations

import numpy as np
import pytest

from ulr.errors import UserError
from ulr.training.parameters import split_parameters


def test_a_bag_contains_whole_queries_and_changes_with_the_iteration():
    bag = split_parameters(
        {"bagging_fraction": 0.3, "bagging_freq": 2, "seed": 1}, "lambdarank"
    ).bag
    keys = np.random.default_rng(0).integers(0, 2**63, 20_000).astype(np.uint64)
    first, again, later = (bag.contains(keys, n) for n in (0, 1, 2))
    assert abs(first.mean() - 0.3) < 0.02
    assert (first == again).all()
    assert (first != later).any()
    assert split_parameters({"subsample": 0.5}, "lambdarank").bag.contains(keys, 0) is None


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"boosting_type": "dart"}, "lightgbm.boosting = 'dart'.*only 'gbdt'"),
        ({"data_sample_strategy": "goss"}, "only 'bagging'"),
        ({"extra_trees": True}, "only False"),
        ({"cegb_penalty_feature_lazy": [1.0, 2.0]}, "lightgbm.cegb_penalty_feature_lazy"),
        ({"cegb_penalty_feature_coupled": [1.0, 2.0]}, "lightgbm.cegb_penalty_feature_coupled"),
        ({"eta": 0.1, "learning_rate": 0.2}, "lightgbm.eta and lightgbm.learning_rate are two"),
        ({"subsample": 0.5, "sub_row": 0.6}, "lightgbm.subsample and lightgbm.sub_row are two"),
        ({"objective": "lambdarank"}, "lightgbm.objective is set by training"),
        ({"machines": "a:1"}, "lightgbm.machines is set by training"),
        ({"n_estimators": 5}, "lightgbm.num_iterations is set by training"),
    ],
)
def test_parameters_that_would_make_the_model_depend_on_the_workers_are_rejected(setting, message):
    with pytest.raises(UserError, match=message):
        split_parameters(setting, "lambdarank")
