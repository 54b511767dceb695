"""LightGBM's settings, sorted by who obeys them: LightGBM, our objective, our bags.

Refused here, before any work: what LightGBM would decide from one worker's rows alone, so that
the model would depend on how the data lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from lightgbm.basic import _ConfigAliases

from ulr.errors import UserError
from ulr.kernels.hashing import splitmix64
from ulr.training.objective import LambdaOptions
from ulr.training.sampling import mix

OURS = ("sigmoid", "lambdarank_truncation_level", "lambdarank_norm")
NOT_OURS = ("objective", "metric", "num_iterations", "early_stopping_round")
BAGGING = ("bagging_fraction", "bagging_freq", "bagging_seed")
SAMPLED = ("feature_fraction", "feature_fraction_bynode")
NETWORK = ("machines", "num_machines", "local_listen_port", "machine_list_filename",
           "time_out", "tree_learner", "pre_partition")  # fmt: skip
# What may be said only in this way. Anything else looks at a worker's own rows, at its random
# state, or at the number of rows in a node, which are not told in rows.
ONLY = {"boosting": "gbdt", "data_sample_strategy": "bagging", "bagging_by_query": False,
        "extra_trees": False, "linear_tree": False, "use_quantized_grad": False,
        "path_smooth": 0.0, "cegb_penalty_split": 0.0,
        "cegb_penalty_feature_lazy": "", "cegb_penalty_feature_coupled": "",
        "categorical_feature": ""}  # fmt: skip
MOST_ROWS = 2**30 - 1


@dataclass(frozen=True)
class Bag:
    """A share of the queries, drawn anew every so many rounds; `every` 0: all of them."""

    fraction: float = 1.0
    every: int = 0
    seed: int = 3

    def rows(self, keys: np.ndarray, round_number: int) -> np.ndarray | None:
        """Whether each query (by the hash of its name) is in the bag of a round, from 0."""
        if self.every <= 0 or self.fraction >= 1.0:
            return None
        draw = mix(self.seed, round_number // self.every)
        return splitmix64(keys ^ np.uint64(draw)) < np.uint64(int(self.fraction * 2**64))


@dataclass(frozen=True)
class Learner:
    """`lightgbm` is handed to LightGBM as it is; the rest is ours."""

    lightgbm: Mapping[str, Any]
    options: LambdaOptions
    bag: Bag

    def for_ranks(self, ranks: int, units: int) -> dict[str, Any]:
        """Settings of a Booster as one of `ranks`. units: of the network, in a row."""
        settings = dict(self.lightgbm)
        if ranks > 1:
            rows = int(self.lightgbm.get("min_data_in_leaf", 20)) * units
            settings |= {"tree_learner": "data", "num_machines": ranks,
                         "min_data_in_leaf": min(max(rows, 1), MOST_ROWS)}  # fmt: skip
        return settings

    def for_round(self, number: int) -> dict[str, Any]:
        """What changes with the round: the seed that its features are sampled from. A run that
        goes on from a checkpoint draws what an undisturbed one does, wherever the checkpoint is."""
        if all(float(self.lightgbm.get(name, 1.0)) >= 1.0 for name in SAMPLED):
            return {}
        seed = mix(int(self.lightgbm["feature_fraction_seed"]), number + 1) % 2**31
        return {"feature_fraction_seed": seed}


def split_parameters(
    lightgbm: Mapping[str, Any], objective: str, nonnegative_weights: bool = True
) -> Learner:
    """LightGBM's own parameters, the ones that our objective reads, and the bags that we draw."""
    given = _by_main_name(lightgbm)
    for name in (*NOT_OURS, *NETWORK):
        if name in given:
            raise UserError(
                f"lightgbm.{name} is set by training itself; see the train section instead"
            )
    for name, only in ONLY.items():
        if given.get(name, only) != only:
            raise UserError(
                f"lightgbm.{name} = {given[name]!r}: the model would depend on how the data is "
                f"split over workers; only {only!r} is allowed"
            )
    ours = {key: given[key] for key in OURS if key in given}
    seed = int(given.get("seed", 0))
    bag = Bag(
        float(given.get("bagging_fraction", 1.0)),
        int(given.get("bagging_freq", 0)),
        int(given.get("bagging_seed", seed)),
    )
    rest = {key: value for key, value in given.items() if key not in {*OURS, *BAGGING}}
    rest.setdefault("feature_fraction_seed", seed)
    if not rest.get("force_row_wise"):
        rest["force_col_wise"] = True  # row-wise keeps the matrix twice, and timing would choose
    if int(rest.get("min_data_in_leaf", 20)) <= 1:
        rest["min_data_in_leaf"] = 0  # leaves are bounded by Hessian, not by an estimate of rows
    fixed = {"verbosity": -1, **rest, "objective": "none", "feature_pre_filter": False}
    return Learner(
        fixed,
        LambdaOptions(**ours, objective=objective, nonnegative_weights=nonnegative_weights),
        bag,
    )


def _by_main_name(lightgbm: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting by the main one of its names; LightGBM would choose between two of them."""
    given: dict[str, Any] = {}
    called: dict[str, str] = {}
    for alias, value in lightgbm.items():
        name = _main_name(alias)
        if name in given:
            raise UserError(
                f"lightgbm.{called[name]} and lightgbm.{alias} are two names for one setting; "
                "give one of them"
            )
        given[name], called[name] = value, alias
    return given


def _main_name(given: str) -> str:
    """Only the main name of a setting has a list of others."""
    names = _ConfigAliases.get_by_alias(given)
    return next((name for name in names if len(_ConfigAliases.get_sorted(name)) > 1), given)
