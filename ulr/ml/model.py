"""`UnbiasedLambdaMARTModel`: a trained ranker as a pyspark.ml Model, with save and load."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pyspark.ml import Model
from pyspark.ml.linalg import DenseVector
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import DataFrame

from ulr.engine.spark.versions import arrow_udf
from ulr.errors import UserError
from ulr.ml.columns import features_column
from ulr.ml.params import RankerParams
from ulr.ml.persistence import ParamsReader, ParamsWriter
from ulr.models.booster import arrow_contributions, arrow_scorer, load_booster
from ulr.models.check import read_checked
from ulr.models.linear import linear_weights
from ulr.training.trained import TrainedRanker

_MODEL, _RECORD = "model", "record"  # texts of a saved model
_IMPORTANCES = ("split", "gain")


class UnbiasedLambdaMARTModel(
    Model, RankerParams, MLReadable["UnbiasedLambdaMARTModel"], MLWritable
):  # fmt: skip
    """A trained ranker.

    model_text: the model in LightGBM's text format. biases: learned with the model, by position:
    t_plus and t_minus, or position_bias; empty if the method learns none. history: a validation
    value per iteration. choice: of method auto.
    """

    def __init__(
        self,
        model_text: str = "",
        biases: Mapping[str, Sequence[float]] | None = None,
        history: Sequence[float] = (),
        choice: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.model_text = model_text
        self.biases = {name: np.array(values) for name, values in (biases or {}).items()}
        self.history = list(history)
        self.choice = choice

    @classmethod
    def of(cls, ranker: TrainedRanker) -> UnbiasedLambdaMARTModel:
        """Return the model of a finished training."""
        biases = ranker.biases.record() if ranker.biases else {}
        return cls(ranker.model_text(), biases, ranker.history, ranker.choice)

    @property
    def booster(self) -> Any:
        """The model as a LightGBM Booster."""
        return load_booster(self.model_text)

    @property
    def featureImportances(self) -> DenseVector:  # noqa: N802 (Spark's name)
        """Splits or total gain of each feature, by importanceType."""
        kind = str(self.getOrDefault(self.importanceType))
        if kind not in _IMPORTANCES:
            raise UserError(f"importanceType = {kind!r}: expected split or gain")
        return DenseVector(self.booster.feature_importance(importance_type=kind).astype(float))

    @property
    def featureNames(self) -> list[str]:  # noqa: N802
        """The names of the features, Column_0 and so on if they have none."""
        return list(self.booster.feature_name())

    def _transform(self, dataset: DataFrame) -> DataFrame:
        features = features_column(dataset, self.getOrDefault(self.featuresCol))
        score = arrow_udf(arrow_scorer(self.model_text), "double")
        scored = dataset.withColumn(self.getPredictionCol(), score(features))
        if not self.isSet(self.contribCol):
            return scored
        if linear_weights(self.model_text) is not None:
            raise UserError("contribCol is set: LightGBM has no contributions of a linear ranker")
        contributions = arrow_udf(arrow_contributions(self.model_text), "array<double>")
        return scored.withColumn(self.getOrDefault(self.contribCol), contributions(features))

    def write(self) -> ParamsWriter:
        """Return the writer that Spark calls to save the model."""
        biases = {name: values.tolist() for name, values in self.biases.items()}
        record = {"biases": biases, "history": self.history, "choice": self.choice}
        return ParamsWriter(self, {_MODEL: self.model_text, _RECORD: json.dumps(record)})

    @classmethod
    def read(cls) -> ParamsReader[UnbiasedLambdaMARTModel]:
        """Return the reader that Spark calls to load a model."""
        return ParamsReader(_loaded, (_MODEL, _RECORD))


def _loaded(content: Mapping[str, str], path: str) -> UnbiasedLambdaMARTModel:
    text = read_checked(content[_MODEL].encode(), path)
    return UnbiasedLambdaMARTModel(text, **json.loads(content[_RECORD]))
