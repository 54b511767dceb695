"""Arguments of LGBMRanker.fit that `Ranker.fit` takes too, and what to use instead of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ulr.errors import UserError

_INSTEAD = {
    "sample_weight": "sessions count equally; choose with session_weight, or repeat a session",
    "init_score": "training starts from score 0",
    "eval_sample_weight": "sessions count equally",
    "eval_init_score": "training starts from score 0",
    "categorical_feature": "encode categories as numbers",
    "eval_metric": "choose what stops training with early_stopping_metric, as ndcg_at_10",
    "eval_at": "choose what stops training with early_stopping_metric, as ndcg_at_10",
    "init_model": "training starts from an empty model",
}
_IGNORED = {"eval_names", "verbose"}  # they change what is printed
_SILENT = ("_LogEvaluationCallback",)


def read_fit_arguments(arguments: Mapping[str, Any]) -> int | None:
    """Return the rounds of an early_stopping callback, None without one.

    arguments: of fit, without those that Ranker.fit names. Raises UserError for one that would
    change the model and has no meaning here, and TypeError for one that LGBMRanker has not either.
    """
    rounds = _stopping_rounds(arguments.get("callbacks") or ())
    for name, value in arguments.items():
        is_default = value is None or (isinstance(value, str) and value == "auto")
        if name in _IGNORED or name == "callbacks" or is_default:
            continue
        if name not in _INSTEAD:
            raise TypeError(f"fit() got an unexpected keyword argument {name!r}")
        raise UserError(f"fit: {name} is not supported; {_INSTEAD[name]}")
    return rounds


def _stopping_rounds(callbacks: Iterable[Any]) -> int | None:
    rounds = None
    for callback in callbacks:
        if hasattr(callback, "stopping_rounds"):
            rounds = int(callback.stopping_rounds)
        elif type(callback).__name__ not in _SILENT:
            name = getattr(callback, "__name__", type(callback).__name__)
            raise UserError(
                f"fit: callback {name} is not supported; history_ and booster_ have what training "
                "left, and early_stopping and log_evaluation may be given"
            )
    return rounds
