"""`UnbiasedLambdaMARTModel`: a trained ranker as a pyspark.ml Model, with save and load."""

from __future__ import annotations

from typing import Any

from pyspark.ml import Model
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.ml.util import (
    DefaultParamsReader,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ulr.engine.spark_versions import arrow_udf, metadata_session
from ulr.errors import UserError
from ulr.ml.params import RankerParams
from ulr.models.booster import arrow_scorer, load_booster
from ulr.models.check import read_checked

_MODEL = "model"  # folder and column of a saved model's text


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

    def write(self) -> ModelWriter:
        """Return the writer that Spark calls to save the model."""
        return ModelWriter(self)

    @classmethod
    def read(cls) -> ModelReader:
        """Return the reader that Spark calls to load a model."""
        return ModelReader()


class ModelWriter(MLWriter):
    """Writer of the parameters, in Spark's format, and of the model's text, a table of one row."""

    def __init__(self, model: UnbiasedLambdaMARTModel) -> None:
        super().__init__()
        self._model = model

    def saveImpl(self, path: str) -> None:  # noqa: N802 (Spark's name)
        """Write the model under `path`."""
        spark = self.sparkSession
        DefaultParamsWriter.saveMetadata(self._model, path, metadata_session(spark))
        text = spark.createDataFrame([(self._model.model_text,)], f"{_MODEL} string")
        text.coalesce(1).write.parquet(f"{path}/{_MODEL}")


class ModelReader(MLReader[UnbiasedLambdaMARTModel]):
    """Reader of a model that ModelWriter saved."""

    def load(self, path: str) -> UnbiasedLambdaMARTModel:
        """Read the model under `path`."""
        spark = SparkSession.getActiveSession() or self.sparkSession
        metadata = DefaultParamsReader.loadMetadata(path, metadata_session(spark))
        row = spark.read.parquet(f"{path}/{_MODEL}").head()
        if row is None:
            raise UserError(f"{path}/{_MODEL} contains no model; save the model again")
        model = UnbiasedLambdaMARTModel(read_checked(str(row[_MODEL]).encode(), path))
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model


def features_column(dataset: DataFrame, name: str) -> Column:
    """Return the features as array<float>, from an array of numbers or an ML vector."""
    column = F.col(name)
    if isinstance(dataset.schema[name].dataType, VectorUDT):
        return vector_to_array(column, "float32")
    return column.cast("array<float>")
