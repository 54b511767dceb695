"""LightGBM's parameters, split into those for LightGBM, for our objective and for our bagging.

A parameter is rejected if LightGBM would apply it to the rows of one rank, because the model would
then depend on how the data is distributed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lightgbm.basic import _ConfigAliases

from ulr.errors import UserError
from ulr.training.objective import LambdaOptions
from ulr.training.sampling import Bag, derive_seed

_OBJECTIVE = ("sigmoid", "lambdarank_truncation_level", "lambdarank_norm")
_BAGGING = ("bagging_fraction", "bagging_freq", "bagging_seed")
_FEATURE_SAMPLING = ("feature_fraction", "feature_fraction_bynode")
_SET_BY_TRAINING = (
    "objective", "metric", "num_iterations", "early_stopping_round",
    "machines", "num_machines", "local_listen_port", "machine_list_filename",
    "time_out", "tree_learner", "pre_partition",
)  # fmt: skip
# Any other value uses the rows or the random state of one rank, or the rows of a node, which are
# not counted in rows (see lightgbm_network).
_ONLY = {"boosting": "gbdt", "data_sample_strategy": "bagging", "bagging_by_query": False,
         "extra_trees": False, "linear_tree": False, "use_quantized_grad": False,
         "path_smooth": 0.0, "cegb_penalty_split": 0.0,
         "cegb_penalty_feature_lazy": "", "cegb_penalty_feature_coupled": "",
         "categorical_feature": ""}  # fmt: skip
_MAX_MIN_DATA = 2**30 - 1
DEFAULT_LEAVES = 31  # LightGBM's default
_AUTO = "auto"  # lightgbm.num_leaves: chosen by validation loss


@dataclass(frozen=True)
class Learner:
    """`lightgbm` is passed to LightGBM; options and bag are applied by our code."""

    lightgbm: Mapping[str, Any]
    options: LambdaOptions
    bag: Bag

    def for_ranks(self, ranks: int, units_per_row: int) -> dict[str, Any]:
        """Return the parameters of a Booster that is one of `ranks`."""
        parameters = dict(self.lightgbm)
        if ranks > 1:
            units = int(self.lightgbm.get("min_data_in_leaf", 20)) * units_per_row
            parameters |= {"tree_learner": "data", "num_machines": ranks,
                           "min_data_in_leaf": min(max(units, 1), _MAX_MIN_DATA)}  # fmt: skip
        return parameters

    def for_iteration(self, iteration: int) -> dict[str, Any]:
        """Return the parameters that change: the seed for sampling features.

        As a function of the iteration it is the same in a run resumed from any checkpoint.
        """
        if all(float(self.lightgbm.get(name, 1.0)) >= 1.0 for name in _FEATURE_SAMPLING):
            return {}
        seed = derive_seed(int(self.lightgbm["feature_fraction_seed"]), iteration + 1) % 2**31
        return {"feature_fraction_seed": seed}


def split_parameters(
    lightgbm: Mapping[str, Any], objective: str, nonnegative_weights: bool = True
) -> Learner:
    """Check the parameters and split them by who applies them."""
    parameters = _bymain_name(lightgbm)
    for name in _SET_BY_TRAINING:
        if name in parameters:
            raise UserError(
                f"lightgbm.{name} is set by training itself; see the train section instead"
            )
    for name, only in _ONLY.items():
        if parameters.get(name, only) != only:
            raise UserError(
                f"lightgbm.{name} = {parameters[name]!r}: the model would depend on how the data "
                f"is split over workers; only {only!r} is allowed"
            )
    seed = int(parameters.get("seed", 0))
    bag = Bag(
        float(parameters.get("bagging_fraction", 1.0)),
        int(parameters.get("bagging_freq", 0)),
        int(parameters.get("bagging_seed", seed)),
    )
    options = LambdaOptions(
        **{name: parameters[name] for name in _OBJECTIVE if name in parameters},
        objective=objective,
        nonnegative_weights=nonnegative_weights,
    )
    rest = {k: v for k, v in parameters.items() if k not in {*_OBJECTIVE, *_BAGGING}}
    rest.setdefault("feature_fraction_seed", seed)
    rest["num_leaves"] = leaves_of(lightgbm) or DEFAULT_LEAVES
    if not rest.get("force_row_wise"):
        # Row-wise stores the matrix twice, and LightGBM would choose by timing both.
        rest["force_col_wise"] = True
    if int(rest.get("min_data_in_leaf", 20)) <= 1:
        rest["min_data_in_leaf"] = 0  # leaves are bounded by Hessian, not by an estimate of rows
    rest = {"verbosity": -1, **rest, "objective": "none", "feature_pre_filter": False}
    return Learner(rest, options, bag)


def override(defaults: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of both; `changes` override, also under another name of LightGBM."""
    changed = _bymain_name(changes)
    kept = {name: v for name, v in _bymain_name(defaults).items() if name not in changed}
    return {**kept, **changed}


def leaves_of(lightgbm: Mapping[str, Any]) -> int | None:
    """Return the number of leaves that is set, LightGBM's default, or None for `auto`."""
    leaves = _bymain_name(lightgbm).get("num_leaves", DEFAULT_LEAVES)
    if leaves == _AUTO:
        return None
    if isinstance(leaves, bool) or not isinstance(leaves, int) or leaves < 2:
        raise UserError(f"lightgbm.num_leaves = {leaves!r}: expected auto or an integer from 2")
    return leaves


def _bymain_name(lightgbm: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters by their main names; two aliases of one parameter are an error."""
    parameters: dict[str, Any] = {}
    aliases: dict[str, str] = {}
    for alias, value in lightgbm.items():
        name = main_name(alias)
        if name in parameters:
            raise UserError(
                f"lightgbm.{aliases[name]} and lightgbm.{alias} are two names for one setting; "
                "set one of them"
            )
        parameters[name], aliases[name] = value, alias
    return parameters


def main_name(alias: str) -> str:
    """Return the main name of a parameter: the only one for which LightGBM lists aliases."""
    names = _ConfigAliases.get_by_alias(alias)
    return next((name for name in names if len(_ConfigAliases.get_sorted(name)) > 1), alias)
