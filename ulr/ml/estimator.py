"""`UnbiasedLambdaMART`: the trainer as a pyspark.ml Estimator, for a DataFrame of shown documents.

    ranker = UnbiasedLambdaMART(qidCol="session", positionCol="position", num_workers=4)
    model = ranker.fit(shown)          # one row per session and document; label is the click
    model.transform(shown)             # adds `prediction`

With a position column the click and non-click biases t+ and t- are learned during training. Without
one no bias is learned; clicks are weighted by `weightCol` (such as 1 / theta) if it is set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.ml import Estimator
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ulr.config.load import load_settings
from ulr.engine.cluster import cancelled_on_error
from ulr.engine.failures import reraise_user_errors
from ulr.engine.session import spark_schema
from ulr.engine.tasks import map_batches
from ulr.errors import UserError
from ulr.ml.lists import build_lists, shown_schema, split_at_lists
from ulr.ml.model import UnbiasedLambdaMARTModel, features_column
from ulr.ml.params import RankerParams
from ulr.ml.persistence import ParamsReader, ParamsWriter
from ulr.ml.work_folder import work_folder
from ulr.training.checkpoint import Checkpoints
from ulr.training.distributed.driver import DistributedOptions, train_on_spark
from ulr.training.distributed.pair_files import PairFiles
from ulr.training.plan import UNBIASED_LAMBDAMART, TrainPlan
from ulr.warehouse.schema import pairs_schema
from ulr.warehouse.storage import Storage

_ROW_GROUP_BYTES = 8 << 20  # a worker of training reads the row groups that have queries of it


class UnbiasedLambdaMART(
    Estimator[UnbiasedLambdaMARTModel],
    RankerParams,
    MLReadable["UnbiasedLambdaMART"],
    MLWritable,
):
    """Estimator that trains one LightGBM model on `num_workers` barrier tasks."""

    def __init__(self, **params: Any) -> None:
        super().__init__()
        settings = load_settings(None)
        self._set_defaults(settings.train, settings.lightgbm)
        self.setParams(**params)

    def setParams(self, **params: Any) -> UnbiasedLambdaMART:  # noqa: N802 (Spark's name)
        """Set parameters by name."""
        self._set(**params)
        return self

    def _fit(self, dataset: DataFrame) -> UnbiasedLambdaMARTModel:
        spark = dataset.sparkSession
        folder = work_folder(spark, self.getOrDefault(self.workPath))
        with folder as url, cancelled_on_error(spark):
            with reraise_user_errors():
                source = self._write_pairs(dataset, url)
            checkpoints = Checkpoints(url, "fit", "fit")  # no other fit uses this folder
            outcome = train_on_spark(spark, source, self._plan(), self._options(), checkpoints)
        return self._copyValues(UnbiasedLambdaMARTModel(outcome.ranker.model_text()))

    def write(self) -> ParamsWriter:
        """Return the writer that Spark calls to save the Estimator."""
        return ParamsWriter(self)

    @classmethod
    def read(cls) -> ParamsReader[UnbiasedLambdaMART]:
        """Return the reader that Spark calls to load an Estimator."""
        return ParamsReader(lambda _content, _path: UnbiasedLambdaMART())

    def _plan(self) -> TrainPlan:
        param = self.getOrDefault
        has_validation = self.isSet(self.validationIndicatorCol)
        return TrainPlan(
            method=UNBIASED_LAMBDAMART if self.isSet(self.positionCol) else "naive",
            num_iterations=param(self.num_iterations),
            lightgbm=param(self.lightgbm),
            objective=param(self.objective),
            early_stopping_metric=param(self.early_stopping_metric),
            early_stopping_round=param(self.early_stopping_round) if has_validation else 0,
            bias_regularization=param(self.bias_regularization),
            bias_rounds=param(self.bias_rounds),
            position_bins=param(self.position_bins),
            checkpoint_every=param(self.checkpoint_every),
        )

    def _options(self) -> DistributedOptions:
        param = self.getOrDefault
        return DistributedOptions(
            param(self.num_workers), param(self.worker_timeout), param(self.max_retries)
        )

    def _write_pairs(self, dataset: DataFrame, url: str) -> PairFiles:
        """Write the lists with their pairs, one folder for training and one for validation."""
        held_out = F.lit(False)
        if self.isSet(self.validationIndicatorCol):
            indicator = F.col(self.getValidationIndicatorCol()).cast("boolean")
            held_out = F.coalesce(indicator, F.lit(False))
        shown = dataset.select(*self._shown_columns(dataset), held_out.alias("held_out"))
        files = {}
        for name, condition in (("train", ~F.col("held_out")), ("validation", F.col("held_out"))):
            rows = shown.where(condition).drop("held_out").repartition("list_id")
            # Without positionCol all positions are equal: sort by content to fix the order.
            content = F.xxhash64("label", "weight", "features")
            rows = rows.sortWithinPartitions("list_id", "position", content)
            pairs = map_batches(rows, _build_pairs, spark_schema(pairs_schema))
            target = Storage(url).child(name)
            write = pairs.write.mode("overwrite").option("parquet.block.size", _ROW_GROUP_BYTES)
            write.parquet(target)
            folder = Storage(target)
            files[name] = [folder.path(f.path) for f in folder.files()]
        return PairFiles(url, files["train"], validation_files=files["validation"])

    def _shown_columns(self, dataset: DataFrame) -> list[Column]:
        if not self.isSet(self.qidCol):
            raise UserError("qidCol is not set; set it to the column with the id of the list")
        optional = {"position": self.positionCol, "weight": self.weightCol}
        columns = {"position": F.lit(1), "weight": F.lit(1.0)} | {
            name: F.col(self.getOrDefault(p)) for name, p in optional.items() if self.isSet(p)
        }
        columns["list_id"] = F.col(self.getOrDefault(self.qidCol))
        columns["label"] = F.col(self.getLabelCol())
        columns["features"] = features_column(dataset, self.getFeaturesCol())
        types = {f.name: f.dataType for f in spark_schema(shown_schema)}
        return [columns[name].cast(types[name]).alias(name) for name in shown_schema.names]


def _build_pairs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for table in split_at_lists(batches):
        yield from build_lists(table).to_batches()
