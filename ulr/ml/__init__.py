"""The pyspark.ml Estimator and the notebook API.

In: a DataFrame of shown documents, or arrays. Out: a pyspark.ml Model around a LightGBM booster.
Imports rooms up to evaluation. Public names are imported on first use.
"""

from importlib import import_module
from typing import Any

__all__ = ["RankingEvaluator", "UnbiasedLambdaMART", "UnbiasedLambdaMARTModel"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "evaluator" if name == "RankingEvaluator" else "estimator"
    return getattr(import_module(f"ulr.ml.{module}"), name)
