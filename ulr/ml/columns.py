"""The columns of a user's DataFrame that parameters name, checked before any job starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DataType, NumericType

from ulr.engine.names import missing_column
from ulr.errors import UserError

Names = str | Sequence[str]
_NUMBERS = (NumericType, BooleanType)


def find_column(dataset: DataFrame, name: str, param: str) -> Column:
    """Return a column; raise UserError if there is none. param: the parameter that names it."""
    if name in dataset.columns:
        return F.col(f"`{name.replace('`', '``')}`")
    if name.partition(".")[0] in dataset.columns:  # a field of a struct
        return F.col(name)
    raise UserError(missing_column(f"{param} = {name}: the DataFrame", name, dataset.columns))


def number_column(dataset: DataFrame, name: str, param: str) -> Column:
    """Return a column of numbers or booleans; raise UserError for any other."""
    column = find_column(dataset, name, param)
    kind = _type_of(dataset, column)
    if not isinstance(kind, _NUMBERS):
        raise UserError(f"{param} = {name} has type {kind.simpleString()}; expected numbers")
    return column


def integer_column(dataset: DataFrame, name: str, param: str) -> Column:
    """Return a column of numbers as integers, null where there is a fraction."""
    column = number_column(dataset, name, param)
    return F.when(column.cast("double") == F.floor(column.cast("double")), column.cast("int"))


def features_column(dataset: DataFrame, names: Names) -> Column:
    """Return the features as array<float>: of an array of numbers, an ML vector, or columns."""
    if isinstance(names, str):
        column = find_column(dataset, names, "featuresCol")
        kind = _type_of(dataset, column)
        if isinstance(kind, VectorUDT):
            return vector_to_array(column, "float32")
        if isinstance(kind, ArrayType) and isinstance(kind.elementType, _NUMBERS):
            return column.cast("array<float>")
        raise UserError(
            f"featuresCol = {names} has type {kind.simpleString()}; expected an array of numbers, "
            "an ML vector, or a list of numeric columns"
        )
    if not names:
        raise UserError("featuresCol is an empty list; name at least one column")
    columns = {name: find_column(dataset, name, "featuresCol") for name in names}
    _check_numeric(dataset, columns)
    return F.array(*[column.cast("float") for column in columns.values()])


def _check_numeric(dataset: DataFrame, columns: Mapping[str, Column]) -> None:
    """Raise UserError for the first column that has no numbers."""
    fields = dataset.select(*columns.values()).schema.fields
    for name, field in zip(columns, fields, strict=True):
        if not isinstance(field.dataType, _NUMBERS):
            raise UserError(
                f"featuresCol: column {name} has type {field.dataType.simpleString()}; encode it "
                "as numbers, such as with StringIndexer, or leave it out"
            )


def _type_of(dataset: DataFrame, column: Column) -> DataType:
    return dataset.select(column).schema.fields[0].dataType
