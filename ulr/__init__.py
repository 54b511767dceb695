"""Unbiased learning to rank from click logs, on one machine or on Spark, with LightGBM.

The rooms of the pipeline, each reading the tables that the one before it published:

    clicklog -> groups -> propensity -> pairs -> training -> evaluation -> registry

    clicklog      reads the files of the click log and checks them against its contract
    groups        reduces the pages of a date to histograms of click patterns
    propensity    estimates how likely each position, and each pair of positions, is examined
    pairs         turns groups, propensities and features into weighted preference pairs
    training      trains a LightGBM model on the pairs, by one or several workers
    evaluation    evaluates models on held-out queries
    judgment      estimates the relevance of every shown document, for workbenches
    registry      registers models in MLflow and promotes them through a gate

What these work on:

    features      feature files, and groups joined with them query by query
    simulate      a click log whose true relevance and examination are known
    experiments   swap experiments: names, plan, and the code for the serving side
    models        trained models: load, compare, score, export

What users meet:

    cli           the `ulr` command
    pipeline      the stages in order: a night, a comparison
    report        the HTML page of a run
    ml            the pyspark.ml Estimator and the notebook API

What everything stands on:

    warehouse     tables that are published atomically, and their schemas
    engine        where the functions of a stage run: a pool of processes, or Spark
    config        settings and how they are loaded
    kernels       numba kernels on flat arrays
    errors, dates, folders, redact, version    single modules

A room imports only the rooms before it in this order, which import-linter checks: experiments,
kernels, config, engine, warehouse, clicklog, groups, features, simulate, propensity, pairs, models,
training, evaluation, judgment, ml, report, registry, pipeline, cli. Public names are imported on
first use.
"""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "Ranker": "ulr.ml.ranker",
    "RankingEvaluator": "ulr.ml.evaluator",
    "UnbiasedLambdaMART": "ulr.ml.estimator",
    "__version__": "ulr.version",
    "evaluate": "ulr.ml.evaluate",
    "judgments": "ulr.ml.judgments",
    "propensities": "ulr.ml.propensities",
}
__all__ = [
    "Ranker",
    "RankingEvaluator",
    "UnbiasedLambdaMART",
    "__version__",
    "evaluate",
    "judgments",
    "propensities",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
