"""A client of a Spark Connect server: fits, saves and cancels as a user would, and prints JSON.

    python -m tests.support.connect_client URL fit FOLDER
    python -m tests.support.connect_client URL cancel FOLDER

Run as a process of its own: a process has either a classic session or one of Spark Connect.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import SparkSession

from tests.support.shown_sessions import LIGHTGBM, NAMES, shown_sessions
from tests.support.waiting import wait_until
from ulr.errors import UserError
from ulr.ml.estimator import UnbiasedLambdaMART
from ulr.ml.evaluator import RankingEvaluator


def ranker(**more: Any) -> UnbiasedLambdaMART:
    """Return the Estimator that the tests fit on both kinds of session."""
    settings = {"num_iterations": 8, "num_workers": 2, "lightgbm": LIGHTGBM, **more}
    return UnbiasedLambdaMART(
        qidCol="session", positionCol="position", labelCol="click", **settings
    )


def pipeline(**more: Any) -> Pipeline:
    """Return the assembler of features and the Estimator."""
    return Pipeline(stages=[VectorAssembler(inputCols=NAMES, outputCol="features"), ranker(**more)])


def fit(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Fit, save, load and transform; return what a classic session is compared with."""
    shown = shown_sessions(spark)
    model = pipeline().fit(shown)
    model.write().overwrite().save(f"{folder}/pipeline")
    model.stages[1].write().overwrite().save(f"{folder}/model")
    model.stages[1].write().overwrite().save(f"{folder}/model")
    loaded = PipelineModel.load(f"{folder}/pipeline")
    return {
        "jvm": getattr(getattr(pyspark, "SparkContext", None), "_gateway", None) is not None,
        "text": model.stages[1].model_text,
        "scores": scores(model, shown),
        "loaded": scores(loaded, shown),
        "joint": joint(spark, shown),
        "errors": {
            "positions": error_of(pipeline(), shown.withColumn("position", shown.position - 1)),
            "workers": error_of(pipeline(num_workers=9), shown),
        },
    }


def joint(spark: SparkSession, shown: Any) -> dict[str, Any]:
    """Return what a method with propensities gives: the model, contributions and estimates."""
    curve = spark.createDataFrame([(k, 1 / k) for k in range(1, 7)], "position int, theta double")
    model = ranker(method="joint", propensities=curve, featuresCol=NAMES, contribCol="why").fit(
        shown
    )
    evaluator = RankingEvaluator(
        qidCol="session", positionCol="position", labelCol="click", propensities=curve
    )
    scored = model.transform(shown).cache()
    metrics = {name: evaluator.copy().setMetricName(name).evaluate(scored)
               for name in ("ndcg_at_3", "snips_dcg")}  # fmt: skip
    first = scored.orderBy("session", "position").select("why").first()
    return {"text": model.model_text, "why": list(first.why), **metrics}


def scores(model: Any, shown: Any) -> list[float]:
    """Return the predictions in the order of the rows."""
    rows = model.transform(shown).select("session", "position", "prediction").collect()
    return [row.prediction for row in sorted(rows)]


def error_of(estimator: Any, shown: Any) -> str:
    """Return the text of the user error of a fit."""
    try:
        estimator.fit(shown)
    except UserError as error:
        return str(error)
    return "no error"


def cancel(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Press Ctrl-C in a fit while another query of the session runs.

    The server has four cores: one for the query, two for the fit. Three tasks can run at once
    afterwards only if those of the fit have ended.
    """
    release, other = folder / "release", folder / "other"
    query = threading.Thread(target=partial(_other_query, spark, release, other))
    query.start()
    interrupter = threading.Thread(target=partial(_interrupt, folder / "work"))
    interrupter.start()
    interrupted = False
    try:
        pipeline(num_iterations=100_000, checkpoint_every=1, workPath=f"{folder}/work").fit(
            shown_sessions(spark)
        )
    except KeyboardInterrupt:
        interrupted = True
    still_running = query.is_alive()
    together = spark.range(0, 3, 1, 3).mapInArrow(_count, "rows long", barrier=True).collect()
    release.write_text("")
    query.join()
    return {
        "interrupted": interrupted,
        "still_running": still_running,
        "together": [row.rows for row in together],
        "other": other.read_text(),
        "left": [path.name for path in (folder / "work").iterdir()],
    }


def _other_query(spark: SparkSession, release: Path, result: Path) -> None:
    waits = partial(_wait, release=str(release))
    try:
        rows = spark.range(0, 5, 1, 1).mapInArrow(waits, "rows long").collect()
        result.write_text(f"{[row.rows for row in rows]}")
    except Exception as error:
        result.write_text(str(error))


def _wait(batches: Iterator[pa.RecordBatch], *, release: str) -> Iterator[pa.RecordBatch]:
    while not os.path.exists(release):
        time.sleep(0.05)
    yield from _count(batches)


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})


def _interrupt(work: Path) -> None:
    wait_until(partial(_has_checkpoint, work), "no checkpoint was written")
    os.kill(os.getpid(), signal.SIGINT)


def _has_checkpoint(work: Path) -> bool:
    try:
        return any(work.rglob("*.json"))
    except OSError:  # Spark deletes its temporary folders meanwhile
        return False


if __name__ == "__main__":
    # Shells start processes in the background with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    url, action, place = sys.argv[1:]
    actions: dict[str, Callable[[SparkSession, Path], dict[str, Any]]] = {
        "fit": fit,
        "cancel": cancel,
    }
    session = SparkSession.builder.remote(url).getOrCreate()
    print(json.dumps(actions[action](session, Path(place))))
