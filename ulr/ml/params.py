"""Parameters of the Estimator and its model, and how the model is saved: in Spark's own words."""

from __future__ import annotations

from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasFeaturesCol,
    HasLabelCol,
    HasPredictionCol,
    HasValidationIndicatorCol,
    HasWeightCol,
)
from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReader, MLWriter
from pyspark.sql import SparkSession

from ulr.config.settings import Train

_TEXT = "model"
_OWN = (
    ("qidCol", "which rows are one list: a session, or a request", TypeConverters.toString),
    ("positionCol", "where the document was shown, from 1; unset: no bias is learned",
     TypeConverters.toString),
    ("num_workers", "barrier tasks that train together", TypeConverters.toInt),
    ("num_iterations", "trees at most", TypeConverters.toInt),
    ("objective", "lambdarank or ranknet", TypeConverters.toString),
    ("early_stopping_metric", "pair_loss or ndcg_at_K", TypeConverters.toString),
    ("early_stopping_round", "rounds without improvement before training stops", TypeConverters.toInt),
    ("bias_regularization", "regularisation of the learned biases: 0, 1 or 2", TypeConverters.toInt),
    ("position_bins", "deeper positions count in the last", TypeConverters.toInt),
    ("checkpoint_every", "rounds between two checkpoints", TypeConverters.toInt),
    ("worker_timeout", "seconds of silence before a worker is lost", TypeConverters.toFloat),
    ("max_retries", "times that a broken run is taken up again", TypeConverters.toInt),
    ("lightgbm", "LightGBM's own settings, as a dict", TypeConverters.identity),
    ("workPath", "folder for pairs while training runs; needed on a cluster",
     TypeConverters.toString),
)  # fmt: skip


class RankerParams(
    HasFeaturesCol, HasLabelCol, HasWeightCol, HasPredictionCol, HasValidationIndicatorCol
):
    """What may be set; `get` and `set` in Spark's way (`getOrDefault`, `set`, `copy`)."""

    def _set_defaults(self, train: Train, lightgbm: dict[str, Any]) -> None:
        """The values of conf/base.yaml, once more."""
        values = {name: getattr(train, name) for name, *_ in _OWN if hasattr(train, name)}
        self._setDefault(**values, lightgbm=dict(lightgbm), workPath="")


for _name, _doc, _convert in _OWN:  # as Spark declares its own: on the class, copied by each object
    setattr(RankerParams, _name, Param(Params._dummy(), _name, _doc, _convert))


class ModelWriter(MLWriter):
    """Parameters as Spark saves them, the model as a table of one text."""

    def __init__(self, instance: Params) -> None:
        super().__init__()
        self.instance = instance

    def saveImpl(self, path: str) -> None:  # noqa: N802 (Spark's word)
        """Write under `path`."""
        spark = self.sparkSession
        DefaultParamsWriter.saveMetadata(self.instance, path, spark)
        text = spark.createDataFrame([(self.instance.model_text,)], "model string")
        text.coalesce(1).write.parquet(f"{path}/{_TEXT}")


class ModelReader(MLReader):
    """The way back."""

    def __init__(self, kind: type) -> None:
        super().__init__()
        self.kind = kind

    def load(self, path: str) -> Params:
        """Read what `ModelWriter` wrote."""
        spark = SparkSession.getActiveSession() or self.sparkSession
        metadata = DefaultParamsReader.loadMetadata(path, spark)
        model = self.kind(spark.read.parquet(f"{path}/{_TEXT}").head().model)
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model
