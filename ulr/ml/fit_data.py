"""The DataFrame of a fit as files of pairs, with the plan of the training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ulr.config.settings import Settings
from ulr.engine.spark.session import spark_schema
from ulr.errors import UserError
from ulr.features.layout import valid_names
from ulr.ml.columns import features_column, find_column, integer_column, number_column
from ulr.ml.params import RankerParams
from ulr.ml.propensity_param import read_examination
from ulr.ml.session_pairs import write_session_pairs
from ulr.ml.session_rows import RowOptions, session_schema
from ulr.ml.weighted_pairs import write_weighted_pairs
from ulr.pairs.config import pair_config_of
from ulr.pairs.weightings import training_columns, validation_columns
from ulr.pairs.weights import LABELS
from ulr.training.distributed.pair_files import PairFiles
from ulr.training.plan import TrainPlan, plan_from_settings
from ulr.warehouse.storage import Storage

_NOT_CUT = 2**31 - 1
_HELD_OUT = "held_out"


def write_fit_data(
    params: RankerParams, dataset: DataFrame, settings: Settings, url: str
) -> tuple[PairFiles, TrainPlan]:
    """Write the pairs of a fit under `url`; return their files and the plan to train on them."""
    names = params.getOrDefault(params.featuresCol)
    feature_names = [] if isinstance(names, str) else valid_names(names, "featuresCol")
    splits = _splits(params, dataset, _columns(params, dataset))
    fraction = settings.train.validation_fraction
    if params.isSet(params.weightCol):
        files = {name: write_weighted_pairs(rows, Storage(url).child(name))
                 for name, rows in splits.items()}  # fmt: skip
        source = PairFiles(url, files["train"], fraction, files.get("validation", ()))
        return source, plan_from_settings(settings, None, feature_names)
    return _write_session_pairs(params, splits, settings, url, feature_names)


def _write_session_pairs(
    params: RankerParams,
    splits: Mapping[str, DataFrame],
    settings: Settings,
    url: str,
    feature_names: list[str],
) -> tuple[PairFiles, TrainPlan]:
    method, limit = settings.pairs.method, settings.groups.max_position
    given = params.getOrDefault("propensities") if params.isSet("propensities") else None
    examination, segments = read_examination(method, given, limit)
    config = pair_config_of(settings.pairs, examination, segments)
    placed = params.isSet(params.positionCol)
    options = RowOptions(
        golden=method == LABELS,
        placed=placed,
        has_documents=params.isSet(params.docCol),
        max_position=limit if placed else _NOT_CUT,
    )
    files: dict[str, list[str]] = {}
    for name, rows in splits.items():  # the prior is estimated from the rows to train on
        fraction = settings.pairs.test_fraction if name == "train" else 0.0
        files[name], config = write_session_pairs(
            rows, options, config, Storage(url).child(name), test_fraction=fraction
        )
    source = PairFiles(
        url,
        files["train"],
        settings.train.validation_fraction,
        files.get("validation", ()),
        weights=training_columns(method, config.click_model),
        validation_weights=validation_columns(method),
    )
    theta = examination.theta if settings.train.fixed_click_bias else None
    plan = plan_from_settings(settings, theta, feature_names)
    return source, replace(plan, click_model=config.click_model)


def _splits(
    params: RankerParams, dataset: DataFrame, columns: list[Column]
) -> dict[str, DataFrame]:
    """Return the rows to train on, and those of the validation if a column says which."""
    if not params.isSet(params.validationIndicatorCol):
        return {"train": dataset.select(*columns)}
    name = params.getValidationIndicatorCol()
    indicator = number_column(dataset, name, "validationIndicatorCol").cast("boolean")
    rows = dataset.select(*columns, F.coalesce(indicator, F.lit(False)).alias(_HELD_OUT))
    return {
        "train": rows.where(~F.col(_HELD_OUT)).drop(_HELD_OUT),
        "validation": rows.where(F.col(_HELD_OUT)).drop(_HELD_OUT),
    }


def _columns(params: RankerParams, dataset: DataFrame) -> list[Column]:
    """Return the columns of `session_schema`, and the weight if there is one."""
    if not params.isSet(params.qidCol):
        raise UserError("qidCol is not set; set it to the column with the id of the list")

    def text(name: str) -> Column:
        param = getattr(params, name)
        return find_column(dataset, params.getOrDefault(param), name)

    def number(name: str) -> Column:
        return number_column(dataset, params.getOrDefault(getattr(params, name)), name)

    def position() -> Column:
        if not params.isSet(params.positionCol):
            return F.lit(1)
        return integer_column(dataset, params.getOrDefault(params.positionCol), "positionCol")

    def optional(name: str) -> Column:
        return text(name) if params.isSet(name) else F.lit(None)

    columns = {
        "query_id": text("queryCol") if params.isSet("queryCol") else text("qidCol"),
        "list_id": text("qidCol"),
        "position": position(),
        "label": number("labelCol"),
        "features": features_column(dataset, params.getOrDefault(params.featuresCol)),
        "doc_id": optional("docCol"),
        "segment": optional("segmentCol"),
    }
    types = {field.name: field.dataType for field in spark_schema(session_schema)}
    selected = [columns[name].cast(types[name]).alias(name) for name in session_schema.names]
    if params.isSet(params.weightCol):
        selected.append(number("weightCol").cast("double").alias("weight"))
    return selected
