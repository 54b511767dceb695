"""Parameters of the Estimator and its model.

Names are Spark's for columns, and LightGBM's and those of the settings for the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasFeaturesCol,
    HasLabelCol,
    HasPredictionCol,
    HasValidationIndicatorCol,
    HasWeightCol,
)

from ulr.config.settings import Train


def _param(name: str, doc: str, convert: Callable[[Any], Any]) -> Param[Any]:
    return Param(Params._dummy(), name, doc, convert)  # each object gets its own copy from Spark


_TEXT, _INT, _FLOAT = TypeConverters.toString, TypeConverters.toInt, TypeConverters.toFloat


class RankerParams(
    HasFeaturesCol, HasLabelCol, HasWeightCol, HasPredictionCol, HasValidationIndicatorCol
):
    """The parameters, read with `getOrDefault` and set with `set` or `setParams`."""

    qidCol = _param("qidCol", "id of the list: a session or a request", _TEXT)  # noqa: N815
    positionCol = _param(  # noqa: N815
        "positionCol", "displayed position, from 1; unset: no bias is learned", _TEXT
    )
    num_workers = _param("num_workers", "barrier tasks that train together", _INT)
    num_iterations = _param("num_iterations", "maximum number of trees", _INT)
    objective = _param("objective", "lambdarank or ranknet", _TEXT)
    early_stopping_metric = _param("early_stopping_metric", "pair_loss or ndcg_at_K", _TEXT)
    early_stopping_round = _param(
        "early_stopping_round", "iterations without improvement before training stops", _INT
    )
    bias_regularization = _param(
        "bias_regularization", "regularisation of the learned biases, from 0", _FLOAT
    )
    bias_rounds = _param(
        "bias_rounds", "iterations after which the biases stay fixed; 0: learned to the end", _INT
    )
    position_bins = _param("position_bins", "deeper positions share the last bin", _INT)
    checkpoint_every = _param("checkpoint_every", "iterations between checkpoints", _INT)
    worker_timeout = _param("worker_timeout", "seconds without a heartbeat", _FLOAT)
    max_retries = _param("max_retries", "attempts to resume a failed training", _INT)
    lightgbm = _param("lightgbm", "LightGBM's parameters, as a dict", TypeConverters.identity)
    workPath = _param(  # noqa: N815
        "workPath", "folder for pairs and checkpoints of a fit; required on a cluster", _TEXT
    )

    def _set_defaults(self, train: Train, lightgbm: dict[str, Any]) -> None:
        """Take the defaults from the settings, which are those of conf/base.yaml."""
        defaults = {p.name: getattr(train, p.name) for p in self.params if hasattr(train, p.name)}
        self._setDefault(**defaults, lightgbm=dict(lightgbm), workPath="")
