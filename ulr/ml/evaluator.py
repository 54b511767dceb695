"""`RankingEvaluator`: ranking metrics of predictions, for CrossValidator and TrainValidationSplit.

    evaluator = RankingEvaluator(qidCol="session", labelCol="grade", metricName="ndcg", k=10)
    clicks = RankingEvaluator(qidCol="session", positionCol="position", labelCol="click",
                              metricName="snips_dcg", propensities=theta)

Metrics on labels (ndcg, map, err, mean_relevant_rank) are means over lists with a positive label.
Estimates from clicks are those of docs/methods.md section 7: what the lists would have got in the
order of the predictions.
"""

from __future__ import annotations

import math
import re
from functools import partial, reduce
from operator import add
from typing import Any

from pyspark.ml.evaluation import Evaluator
from pyspark.ml.param import TypeConverters
from pyspark.ml.param.shared import HasLabelCol, HasPredictionCol
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ulr.config.load import default_settings
from ulr.engine.failures import reraise_user_errors
from ulr.engine.spark.cluster import cancelled_on_error
from ulr.engine.spark.tasks import map_batches
from ulr.errors import UserError
from ulr.evaluation.metrics import METRICS, EvaluationPlan, is_lower_better
from ulr.evaluation.totals import Totals, metric_values, read_totals
from ulr.ml.columns import find_column, integer_column, number_column
from ulr.ml.evaluator_tasks import SUBJECT, evaluate_clicks, evaluate_labels
from ulr.ml.params import HasSessionCols, make_param, with_accessors
from ulr.ml.persistence import ParamsReader, ParamsWriter
from ulr.ml.propensity_param import read_examination
from ulr.propensity.examination import BySegment, Examination

_SOURCES = {m.name: m.source for m in METRICS if m.better != "neither"}
_WITH_CUT = ("ndcg", "ips_precision", "snips_precision")
_CUT = re.compile(r"(?P<name>\w+)_at_(?P<k>[1-9][0-9]*)$")


@with_accessors
class RankingEvaluator(
    Evaluator, HasSessionCols, HasLabelCol, HasPredictionCol, MLReadable["RankingEvaluator"],
    MLWritable,
):  # fmt: skip
    """Evaluator of predictions of lists. qidCol: the id of the list, which is evaluated whole."""

    metricName = make_param(  # noqa: N815
        "metricName", f"one of {', '.join(_SOURCES)}; a cut may follow, as in ndcg_at_5",
        TypeConverters.toString,
    )  # fmt: skip
    k = make_param("k", "documents at the top, for ndcg and precision", TypeConverters.toInt)
    maxLabel = make_param(  # noqa: N815
        "maxLabel", "the highest label, for err", TypeConverters.toInt
    )

    def __init__(self, **params: Any) -> None:
        super().__init__()
        self._setDefault(metricName="ndcg", k=10, maxLabel=default_settings().evaluate.max_label)
        self.setParams(**params)

    def isLargerBetter(self) -> bool:  # noqa: N802 (Spark's name)
        """Return whether CrossValidator chooses the largest value."""
        return not is_lower_better(self._metric()[0])

    def write(self) -> ParamsWriter:
        """Return the writer that Spark calls to save the evaluator."""
        return ParamsWriter(self)

    @classmethod
    def read(cls) -> ParamsReader[RankingEvaluator]:
        """Return the reader that Spark calls to load an evaluator."""
        return ParamsReader(lambda _content, _path: RankingEvaluator())

    def _evaluate(self, dataset: DataFrame) -> float:
        name, k = self._metric()
        with reraise_user_errors(), cancelled_on_error(dataset.sparkSession):
            rows = self._rows(dataset, clicks=_SOURCES[name] == "clicks")
            if _SOURCES[name] == "clicks":
                return self._of_clicks(rows, name, k)
            return self._of_labels(rows, name, k)

    def _metric(self) -> tuple[str, int]:
        """Return the name without a cut, and the cut."""
        name, k = str(self.getOrDefault(self.metricName)), int(self.getOrDefault(self.k))
        if (match := _CUT.match(name)) and match["name"] in _WITH_CUT:
            name, k = match["name"], int(match["k"])
        if name not in _SOURCES:
            raise UserError(f"metricName = {name!r}: expected one of {', '.join(_SOURCES)}")
        if k < 1:
            raise UserError(f"k = {k}: expected an integer from 1")
        return name, k

    def _rows(self, dataset: DataFrame, *, clicks: bool) -> DataFrame:
        """Return the rows of whole lists, in displayed order or, for labels, in that of a hash."""
        if not self.isSet(self.qidCol):
            raise UserError("qidCol is not set; set it to the column with the id of the list")
        if clicks and not self.isSet(self.positionCol):
            raise UserError("estimates from clicks need positions; set positionCol")
        columns = {"list_id": find_column(dataset, self.getOrDefault("qidCol"), "qidCol")
                   .cast("string")}  # fmt: skip
        columns["position"] = F.lit(1)
        if self.isSet(self.positionCol):
            name = self.getOrDefault(self.positionCol)
            columns["position"] = integer_column(dataset, name, "positionCol")
        columns["segment"] = F.lit(None).cast("string")
        if self.isSet(self.segmentCol):
            name = self.getOrDefault(self.segmentCol)
            columns["segment"] = find_column(dataset, name, "segmentCol").cast("string")
        for param in ("labelCol", "predictionCol"):
            column = number_column(dataset, self.getOrDefault(param), param)
            columns[param.removesuffix("Col")] = column.cast("double")
        selected = [column.alias(name) for name, column in columns.items()]
        rows = dataset.select(*selected).repartition("list_id")
        # Equal predictions must not be ranked as they were shown, nor by their labels.
        shuffled = F.xxhash64("list_id", "position", "label", F.lit("ulr"))
        return rows.sortWithinPartitions("list_id", "position" if clicks else shuffled)

    def _of_labels(self, rows: DataFrame, name: str, k: int) -> float:
        column = f"{name}_at_{k}" if name in _WITH_CUT else name
        task = partial(evaluate_labels, metric=column, k=k, max_label=self.getOrDefault("maxLabel"))
        parts = map_batches(rows, task, "total double, lists long").collect()
        if not (lists := sum(part.lists for part in parts)):
            raise UserError(f"{column}: no list has a positive label; check labelCol")
        return math.fsum(sorted(part.total for part in parts)) / lists

    def _of_clicks(self, rows: DataFrame, name: str, k: int) -> float:
        column = f"{name}_at_{k}" if name in _WITH_CUT else name
        settings = default_settings().evaluate.model_copy(
            update={"segments": False, "precision_cuts": [k]}
        )
        examination, by_segment = self._examination()
        plan = EvaluationPlan(settings, examination, by_segment).for_tasks()
        task = partial(evaluate_clicks, plan=plan)
        parts = map_batches(rows, task, "part int, totals string").collect()
        totals = reduce(add, (read_totals(part.totals) for part in sorted(parts)), Totals())
        values = metric_values(totals.with_propensity_errors(None), SUBJECT)
        if column not in values:
            raise UserError(f"{column}: no click has a weight; check labelCol and propensities")
        return float(values[column].value)

    def _examination(self) -> tuple[Examination, BySegment]:
        if not self.isSet(self.propensities):
            raise UserError(
                "estimates from clicks need propensities; give theta by position, or the result of "
                "ulr.propensities"
            )
        return read_examination("joint", self.getOrDefault(self.propensities), 1)
