"""Save and load of the Estimator and its model, with a classic session or Spark Connect.

A folder has the layout of Spark ML: `metadata` holds the class and the parameters as JSON, and
`content` the texts of a model, a table of one row. Only the session is used, no JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pyspark.ml.param import Params
from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReader, MLWriter
from pyspark.sql import DataFrame, Row

from ulr.errors import UserError

_METADATA, _CONTENT = "metadata", "content"
Instance = TypeVar("Instance", bound=Any)  # Params that are MLReadable


class ParamsWriter(MLWriter):
    """Writer of an object's parameters and of its texts by name, if it has any."""

    def __init__(self, instance: Params, content: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._instance, self._content = instance, content or {}

    def save(self, path: str) -> None:
        """Write the object under `path`, where nothing may be unless it is overwritten."""
        spark, mode = self.sparkSession, "overwrite" if self.shouldOverwrite else "error"
        metadata = DefaultParamsWriter._get_metadata_to_save(self._instance, spark)
        text = spark.createDataFrame([(metadata,)], "value string").coalesce(1)
        text.write.mode(mode).text(f"{path}/{_METADATA}")
        if self._content:
            schema = ", ".join(f"{name} string" for name in self._content)
            row = spark.createDataFrame([tuple(self._content.values())], schema).coalesce(1)
            row.write.mode(mode).parquet(f"{path}/{_CONTENT}")


class ParamsReader(MLReader[Instance]):
    """Reader of what ParamsWriter saved. make: gives the object for the saved texts and a path."""

    def __init__(
        self, make: Callable[[Mapping[str, str], str], Instance], names: tuple[str, ...] = ()
    ) -> None:
        super().__init__()
        self._make, self._names = make, names

    def load(self, path: str) -> Instance:
        """Read the object under `path`."""
        spark = self.sparkSession
        metadata = DefaultParamsReader._parseMetaData(_first(spark.read.text, path, _METADATA)[0])
        content: Mapping[str, str] = {}
        if self._names:
            row = _first(spark.read.parquet, path, _CONTENT)
            content = {name: row[name] for name in self._names}
        instance = self._make(content, path)
        instance._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(instance, metadata)
        return instance


def _first(read: Callable[[str], DataFrame], path: str, folder: str) -> Row:
    row = read(f"{path}/{folder}").first()
    if row is None:
        raise UserError(f"{path}/{folder} is empty; save the object again")
    return row
