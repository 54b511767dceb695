"""`UnbiasedLambdaMART`: the trainer as a pyspark.ml Estimator, for a DataFrame of shown documents.

    ranker = UnbiasedLambdaMART(qidCol="session", positionCol="position", num_workers=4)
    model = ranker.fit(shown)          # one row per session and document; label is the click
    model.transform(shown)             # adds `prediction`

Methods that divide by propensities take them as `propensities=`; with a position column alone the
click and non-click biases t+ and t- are learned during training. docs/estimator.md has the rest.
"""

from __future__ import annotations

from typing import Any

from pyspark.ml import Estimator
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import DataFrame

from ulr.config.load import default_settings
from ulr.config.settings import Settings
from ulr.engine.failures import reraise_user_errors
from ulr.engine.spark.cluster import cancelled_on_error
from ulr.engine.spark.engine import SparkEngine
from ulr.errors import UserError
from ulr.ml.fit_data import write_fit_data
from ulr.ml.model import UnbiasedLambdaMARTModel
from ulr.ml.parameters import merged_settings
from ulr.ml.params import SETTINGS, RankerParams
from ulr.ml.persistence import ParamsReader, ParamsWriter
from ulr.ml.work_folder import work_folder
from ulr.pairs.weights import AUTO, LABELS
from ulr.training.checkpoint import Checkpoints
from ulr.training.distributed.driver import DistributedOptions, train_on_ranks
from ulr.training.parameters import override
from ulr.training.plan import UNBIASED_LAMBDAMART

NAIVE = "naive"


class UnbiasedLambdaMART(
    Estimator[UnbiasedLambdaMARTModel],
    RankerParams,
    MLReadable["UnbiasedLambdaMART"],
    MLWritable,
):
    """Estimator that trains one model on `num_workers` barrier tasks."""

    def __init__(self, **params: Any) -> None:
        super().__init__()
        self._set_defaults(default_settings())
        self.setParams(**params)

    def _fit(self, dataset: DataFrame) -> UnbiasedLambdaMARTModel:
        spark, settings = dataset.sparkSession, self._settings()
        train = settings.train
        options = DistributedOptions(train.num_workers, train.worker_timeout, train.max_retries)
        folder = work_folder(spark, self.getOrDefault(self.workPath))
        with folder as url, cancelled_on_error(spark):
            with reraise_user_errors():
                source, plan = write_fit_data(self, dataset, settings, url)
            checkpoints = Checkpoints(url, "fit", "fit")  # no other fit uses this folder
            engine = SparkEngine(session=spark)
            outcome = train_on_ranks(engine, source, plan, options, checkpoints)
        return self._copyValues(UnbiasedLambdaMARTModel.of(outcome.ranker))

    def write(self) -> ParamsWriter:
        """Return the writer that Spark calls to save the Estimator."""
        return ParamsWriter(self)

    @classmethod
    def read(cls) -> ParamsReader[UnbiasedLambdaMART]:
        """Return the reader that Spark calls to load an Estimator."""
        return ParamsReader(lambda _content, _path: UnbiasedLambdaMART())

    def _settings(self) -> Settings:
        """Return the settings that the parameters define, checked."""
        method, changes = self._method(), dict[str, Any]()
        values = {name: self.getOrDefault(name) for name in SETTINGS}
        settings = merged_settings(default_settings(), {**values, "method": method})
        has_indicator = self.isSet(self.validationIndicatorCol)
        validated = has_indicator or self.isSet(self.propensities) or method == LABELS
        if not validated and not self.isSet(self.early_stopping_round):
            changes["early_stopping_round"] = 0
        if has_indicator:
            changes["validation_fraction"] = 0.0
        train = settings.train.model_copy(update=changes)
        lightgbm = override(settings.lightgbm, self.getOrDefault(self.lightgbm))
        return settings.model_copy(update={"train": train, "lightgbm": lightgbm})

    def _method(self) -> str:
        """Return the method that is set, or the one that the other parameters suggest."""
        weighted, placed = self.isSet(self.weightCol), self.isSet(self.positionCol)
        default = UNBIASED_LAMBDAMART if placed else NAIVE
        if self.isSet(self.propensities) and not weighted:
            default = AUTO
        method = str(self.getOrDefault(self.method) if self.isSet(self.method) else default)
        if weighted and method not in (NAIVE, UNBIASED_LAMBDAMART):
            raise UserError(
                f"weightCol is set, and method {method} computes weights itself; leave out one"
            )
        if not placed and method not in (NAIVE, LABELS):
            raise UserError(f"method {method} needs positions; set positionCol")
        return method
