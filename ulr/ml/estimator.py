"""`UnbiasedLambdaMART`: the trainer as a pyspark.ml Estimator, for a DataFrame of shown documents.

    ranker = UnbiasedLambdaMART(qidCol="session", positionCol="position", num_workers=4)
    model = ranker.fit(shown)          # one row per session and document; label is the click
    model.transform(shown)             # adds `prediction`

With a position column the click and unclick biases t+ and t- are learned while training; without
one the clicks are taken as they are, times `weightCol` (such as 1 / theta) where there is one.
"""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark import keyword_only
from pyspark.ml import Estimator, Model
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable, MLReadable, MLWritable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ulr.config.load import load_settings
from ulr.engine.failures import reraise_user_errors
from ulr.engine.session import spark_schema
from ulr.errors import UserError
from ulr.ml.lists import build_lists, shown_schema, whole_lists
from ulr.ml.params import ModelReader, ModelWriter, RankerParams
from ulr.models.booster import arrow_scorer, load_booster
from ulr.training.checkpoint import Checkpoints
from ulr.training.distributed.driver import DistributedOptions, train_on_spark
from ulr.training.distributed.shuffle import PairFiles
from ulr.training.plan import LEARNED, TrainPlan
from ulr.warehouse.schema import pairs_schema
from ulr.warehouse.storage import Storage


class UnbiasedLambdaMART(
    Estimator, RankerParams, DefaultParamsReadable, DefaultParamsWritable
):  # fmt: skip
    """Trains one LightGBM model on `num_workers` barrier tasks."""

    @keyword_only
    def __init__(self, **params: Any) -> None:
        super().__init__()
        settings = load_settings(None)
        self._set_defaults(settings.train, settings.lightgbm)
        self.setParams(**self._input_kwargs.get("params", self._input_kwargs))

    def setParams(self, **params: Any) -> UnbiasedLambdaMART:  # noqa: N802 (Spark's word)
        """Set several at once."""
        return self._set(**params)

    def _fit(self, dataset: DataFrame) -> UnbiasedLambdaMARTModel:
        spark = dataset.sparkSession
        with _work_folder(spark, self.getOrDefault(self.workPath)) as url:
            with reraise_user_errors():
                source = self._write_pairs(dataset, url)
            checkpoints = Checkpoints(url, "fit", "fit")  # the folder is this fit's own
            outcome = train_on_spark(spark, source, self._plan(), self._fleet(), checkpoints)
        model = UnbiasedLambdaMARTModel(outcome.ranker.model_text())
        return self._copyValues(model)

    def _plan(self) -> TrainPlan:
        read = self.getOrDefault
        learned = self.isSet(self.positionCol)
        stops = self.isSet(self.validationIndicatorCol)
        return TrainPlan(
            method=LEARNED if learned else "naive",
            num_iterations=read(self.num_iterations),
            lightgbm=read(self.lightgbm),
            objective=read(self.objective),
            early_stopping_metric=read(self.early_stopping_metric),
            early_stopping_round=read(self.early_stopping_round) if stops else 0,
            bias_regularization=read(self.bias_regularization),
            position_bins=read(self.position_bins),
            checkpoint_every=read(self.checkpoint_every),
        )

    def _fleet(self) -> DistributedOptions:
        read = self.getOrDefault
        return DistributedOptions(
            read(self.num_workers), read(self.worker_timeout), read(self.max_retries)
        )

    def _write_pairs(self, dataset: DataFrame, url: str) -> PairFiles:
        """Lists with their pairs as files, those to train on and those to validate on apart."""
        aside = F.lit(False)
        if self.isSet(self.validationIndicatorCol):
            aside = F.col(self.getValidationIndicatorCol()).cast("boolean")
            aside = F.coalesce(aside, F.lit(False))
        shown = dataset.select(*self._shown_columns(dataset), aside.alias("aside"))
        files = {}
        for name, wanted in (("train", ~F.col("aside")), ("validation", F.col("aside"))):
            rows = shown.where(wanted).drop("aside").repartition("list_id")
            # Rows of one position, as all are without positionCol, in an order of their own.
            content = F.xxhash64("label", "weight", "features")
            rows = rows.sortWithinPartitions("list_id", "position", content)
            made = rows.mapInArrow(_pairs, spark_schema(pairs_schema))
            target = Storage(url).child(name)
            made.write.mode("overwrite").parquet(target)
            folder = Storage(target)
            files[name] = [folder.path(f.path) for f in folder.files()]
        return PairFiles(url, files["train"], validation_files=files["validation"])

    def _shown_columns(self, dataset: DataFrame) -> list[Column]:
        given = {"list_id": self.qidCol, "position": self.positionCol, "weight": self.weightCol}
        if not self.isSet(self.qidCol):
            raise UserError("qidCol is not set; name the column that says which rows are one list")
        columns = {name: F.col(self.getOrDefault(p)) for name, p in given.items() if self.isSet(p)}
        columns.setdefault("position", F.lit(1))
        columns.setdefault("weight", F.lit(1.0))
        columns["label"] = F.col(self.getLabelCol())
        columns["features"] = features_column(dataset, self.getFeaturesCol())
        types = {f.name: f.dataType for f in spark_schema(shown_schema)}
        return [columns[name].cast(types[name]).alias(name) for name in shown_schema.names]


class UnbiasedLambdaMARTModel(Model, RankerParams, MLReadable, MLWritable):
    """A trained ranker."""

    def __init__(self, model_text: str = "") -> None:
        super().__init__()
        self.model_text = model_text

    @property
    def booster(self) -> Any:
        """The LightGBM model itself."""
        return load_booster(self.model_text)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        features = features_column(dataset, self.getFeaturesCol())
        score = F.arrow_udf(arrow_scorer(self.model_text), "double")
        return dataset.withColumn(self.getPredictionCol(), score(features))

    def write(self) -> ModelWriter:
        """Spark's way to save."""
        return ModelWriter(self)

    @classmethod
    def read(cls) -> ModelReader:
        """Spark's way to load."""
        return ModelReader(cls)


def features_column(dataset: DataFrame, name: str) -> Column:
    """Features as array<float>, from an array of numbers or an ML vector."""
    field: StructField = StructType(dataset.schema.fields)[name]
    column = F.col(name)
    if isinstance(field.dataType, VectorUDT):
        return vector_to_array(column, "float32")
    return column.cast("array<float>")


def _pairs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for table in whole_lists(batches):
        yield from build_lists(table).to_batches()


@contextlib.contextmanager
def _work_folder(spark: SparkSession, given: str) -> Iterator[str]:
    """Where pairs and checkpoints lie while one fit runs: all executors must see it."""
    if not given and not spark.sparkContext.master.startswith("local["):
        raise UserError(
            "workPath is not set; on a cluster name a folder that every executor can reach"
        )
    with contextlib.ExitStack() as stack:
        root = Storage(given or stack.enter_context(tempfile.TemporaryDirectory(prefix="ulr-")))
        own = f"fit-{uuid.uuid4().hex}"  # several fits may share the folder, even at once
        stack.callback(root.delete, own)
        yield root.child(own)
