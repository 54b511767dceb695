"""The parameter `propensities`: a value of JSON, so that it is saved with the Estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame

from ulr.engine.spark.versions import to_arrow
from ulr.ml.frames import is_pandas, to_table
from ulr.ml.given import as_examination, examination_for
from ulr.propensity.examination import BySegment, Examination

_ESTIMATED = "examination"  # the key of a value that was an Examination


def to_json_value(value: Any) -> Any:
    """Return propensities of any kind that `as_examination` takes, or a Spark DataFrame, as JSON.

    Raises UserError if they are not propensities; a file is read when the Estimator is fitted.
    """
    if isinstance(value, str | Path):
        return str(value)
    if isinstance(value, Mapping) and _ESTIMATED in value:
        return value
    if isinstance(value, DataFrame) or _is_connect_frame(value):
        value = to_arrow(value)
    if isinstance(value, Examination) or hasattr(value, "examination"):
        pooled, by_segment = as_examination(value)
        segments = {name: _record(own) for name, own in by_segment.items()}
        return {_ESTIMATED: _record(pooled), "segments": segments}
    if is_pandas(value) or hasattr(value, "__arrow_c_stream__"):
        value = to_table(value, "propensities").to_pydict()
    as_examination(value)
    if isinstance(value, Mapping):
        value = _with_text_keys(value)
    return _plain(value)


def read_examination(method: str, value: Any, positions: int) -> tuple[Examination, BySegment]:
    """Return the examination that a method is trained with, from a value of the parameter."""
    if isinstance(value, Mapping) and _ESTIMATED in value:
        segments = {name: _examination(own) for name, own in value["segments"].items()}
        return _examination(value[_ESTIMATED]), segments
    return examination_for(method, value, positions)


def _record(examination: Examination) -> dict[str, Any]:
    """Return the fields as JSON values, without the errors, which no weight depends on."""
    names = [field.name for field in fields(examination) if field.name != "errors"]
    return {name: _plain(getattr(examination, name)) for name in names}


def _examination(record: Mapping[str, Any]) -> Examination:
    values: dict[str, Any] = {
        name: np.array(own, float) if isinstance(own, list) else own for name, own in record.items()
    }
    return Examination(**values)


def _with_text_keys(value: Mapping[Any, Any]) -> Any:
    """Return theta by position as a list, and the key None, all traffic, as `theta`."""
    if all(isinstance(own, int | float) for own in value.values()):
        return [value[k] for k in range(1, len(value) + 1)]
    return {"theta" if key is None else str(key): own for key, own in value.items()}


def _plain(value: Any) -> Any:
    """Return the value with lists and numbers of Python instead of numpy's."""
    if isinstance(value, Mapping):
        return {key: _plain(own) for key, own in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    return value


def _is_connect_frame(value: Any) -> bool:
    """Return whether this is a DataFrame of Spark Connect, which before Spark 4 is no DataFrame."""
    return type(value).__module__.startswith("pyspark.sql.connect")
