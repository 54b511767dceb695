"""`UnbiasedLambdaMARTModel`: a trained ranker as a pyspark.ml Model, with save and load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.ml import Model
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ulr.engine.spark_versions import arrow_udf
from ulr.ml.params import RankerParams
from ulr.ml.persistence import ParamsReader, ParamsWriter
from ulr.models.booster import arrow_scorer, load_booster
from ulr.models.check import read_checked

_MODEL = "model"  # the text of a saved model


class UnbiasedLambdaMARTModel(
    Model, RankerParams, MLReadable["UnbiasedLambdaMARTModel"], MLWritable
):  # fmt: skip
    """A trained ranker. model_text: the model in LightGBM's text format."""

    def __init__(self, model_text: str = "") -> None:
        super().__init__()
        self.model_text = model_text

    @property
    def booster(self) -> Any:
        """The model as a LightGBM Booster."""
        return load_booster(self.model_text)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        features = features_column(dataset, self.getFeaturesCol())
        score = arrow_udf(arrow_scorer(self.model_text), "double")
        return dataset.withColumn(self.getPredictionCol(), score(features))

    def write(self) -> ParamsWriter:
        """Return the writer that Spark calls to save the model."""
        return ParamsWriter(self, {_MODEL: self.model_text})

    @classmethod
    def read(cls) -> ParamsReader[UnbiasedLambdaMARTModel]:
        """Return the reader that Spark calls to load a model."""
        return ParamsReader(_loaded, (_MODEL,))


def _loaded(content: Mapping[str, str], path: str) -> UnbiasedLambdaMARTModel:
    return UnbiasedLambdaMARTModel(read_checked(content[_MODEL].encode(), path))


def features_column(dataset: DataFrame, name: str) -> Column:
    """Return the features as array<float>, from an array of numbers or an ML vector."""
    column = F.col(name)
    if isinstance(dataset.schema[name].dataType, VectorUDT):
        return vector_to_array(column, "float32")
    return column.cast("array<float>")
