"""Which columns of a features table hold the keys, the features, the label and the date."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.clicklog.encoding import invalid_rows
from ulr.engine.columns import without_views
from ulr.errors import InvalidData
from ulr.features.numeric import check_array, check_numeric, is_numeric, vectors
from ulr.warehouse.schema import features_schema

ALL = "all"
DATE = "dt"
_COLUMNS_SHOWN = 20  # in messages
# Characters that LightGBM's text format does not allow in feature names.
_INVALID_IN_NAMES = re.compile(r'[\s",:\[\]{}]')
# Days since 1970-01-01 of the features of a row; the column that readers add for `as_of: day`.
day_field = pa.field("day", pa.int32(), nullable=False)


@dataclass(frozen=True)
class FeatureLayout:
    """How a features table holds what `features_schema` describes.

    keys     column of query_id, doc_id, features, label or dt, where its name is another one
    columns  names of the columns that are the features, or ALL: every numeric column that is not
             a key; None: the array column `features`
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] | str | None = None

    def column(self, name: str) -> str:
        """Return the name of the column of a key."""
        return self.keys.get(name, name)

    @property
    def _key_columns(self) -> set[str]:
        return {self.column(name) for name in (*features_schema.names, DATE)}

    @property
    def is_default(self) -> bool:
        return not self.keys and self.columns is None

    @property
    def names(self) -> list[str]:
        """Return the names of the features, if the layout has them."""
        chosen = self.columns if isinstance(self.columns, tuple) else ()
        return valid_names(chosen, "features.columns")

    def resolved(self, schema: pa.Schema, source: str) -> FeatureLayout:
        """Return the layout with the columns that ALL stands for in a table, if it is ALL."""
        if self.columns != ALL:
            return self
        return replace(self, columns=self._numeric(schema, source))

    def _numeric(self, schema: pa.Schema, source: str) -> tuple[str, ...]:
        keys = self._key_columns
        found = [f.name for f in schema if f.name not in keys and is_numeric(f.type)]
        if not found:
            raise InvalidData(
                f"{source}: features.columns=all finds no numeric column besides the keys; "
                f"{_present(schema)}"
            )
        return tuple(found)

    def check(self, schema: pa.Schema, source: str, every: bool = False) -> list[str]:
        """Return the columns to read; raise InvalidData if one is missing or is not a number.

        every: whether the columns must be all numeric columns of the table.
        """
        required = ["query_id", "doc_id"] + ["features"] * (self.columns is None)
        for name in required:
            self._require(name, schema, source)
        if self.columns is None:
            check_array(self.column("features"), schema, source)
        if "label" in self.keys:  # optional, unless its name is set
            self._require("label", schema, source)
        columns = self.columns if isinstance(self.columns, tuple) else ()
        for name in columns:
            if name in self._key_columns:
                raise InvalidData(
                    f"features.columns: {name} is the key, the label or the date of a row, not a "
                    "feature; leave it out, or set features.keys"
                )
            if name not in schema.names:
                raise InvalidData(
                    f"{source}: no column {name} (features.columns); "
                    f"{_nearest(name, schema)}{_present(schema)}"
                )
            check_numeric(name, schema.field(name).type, source)
        if every and (more := set(self._numeric(schema, source)) - set(columns)):
            raise InvalidData(
                f"{source}: the numeric column {min(more)} is not in the first file, so "
                "features.columns=all is not clear; list the columns"
            )
        keys = [*required, *(n for n in ("label", DATE) if self.column(n) in schema.names)]
        return list(dict.fromkeys([*(self.column(name) for name in keys), *columns]))

    def _require(self, name: str, schema: pa.Schema, source: str) -> None:
        column = self.column(name)
        if column in schema.names:
            return
        setting = f" ({name} by features.keys)" if name in self.keys else ""
        advice = f"set features.keys.{name} to the column that holds it"
        if name == "features":
            advice = "set features.columns to the columns of the features, or to all"
        raise InvalidData(
            f"{source}: no column {column}{setting}; {_nearest(column, schema)}"
            f"{_present(schema)}; {advice}"
        )

    def rows(self, batch: pa.RecordBatch, source: str) -> pa.Table:
        """Return the rows of a batch with `features_schema`; a missing label is null."""
        columns = [self._typed(batch, item, source) for item in features_schema]
        return pa.table(columns, schema=features_schema)

    def _typed(self, batch: pa.RecordBatch, item: pa.Field, source: str) -> pa.Array:
        name = self.column(item.name)
        if item.name == "features" and isinstance(self.columns, tuple):
            return vectors(batch, self.columns)
        column = batch[name] if name in batch.schema.names else pa.nulls(batch.num_rows)
        # Features are rounded to float32; other columns must convert without loss.
        typed = convert(column, item.type, f"{source}: {name}", safe=item.name != "features")
        if typed.null_count and not item.nullable:
            raise InvalidData(
                f"{source}: {name} is null in {typed.null_count:,} of {len(typed):,} rows; "
                "every row must have a value"
            )
        if (wrong := invalid_rows(typed)) is not None:
            raise InvalidData(
                f"{source}: {name} is not valid UTF-8 in {wrong.sum():,} of {len(typed):,} rows; "
                "write the file again"
            )
        return typed

    def days(self, batch: pa.RecordBatch, source: str) -> np.ndarray | None:
        """Return the date of each row in days since 1970 (int32), None without such a column."""
        name = self.column(DATE)
        if name not in batch.schema.names:
            return None
        dates = convert(batch[name], pa.date32(), f"{source}: {name}")
        if dates.null_count:
            raise InvalidData(
                f"{source}: {name} is null in {dates.null_count:,} of {len(dates):,} rows; "
                "every row must have a date"
            )
        days: np.ndarray = dates.cast(pa.int32()).to_numpy()
        return days


def may_be_date(type_: pa.DataType) -> bool:
    """Return whether a column named as the date is one: dates, times or text."""
    return bool(pa.types.is_temporal(type_) or pa.types.is_string(type_))


def convert(column: pa.Array, to: pa.DataType, what: str, *, safe: bool = True) -> pa.Array:
    """Return the column with another type; raise InvalidData with `what` if it does not convert."""
    try:
        if pa.types.is_timestamp(column.type) and to == pa.date32():
            safe = False  # the time of day is not used
        return pc.cast(without_views(column), to, safe=safe)
    except pa.ArrowException as error:
        reason = str(error).split("\n", maxsplit=1)[0]
        if pa.types.is_nested(to) and "string" in str(column.type):
            reason += "; encode texts as numbers, by their index or by the mean of a target"
        raise InvalidData(f"{what} is {column.type}, expected {to}: {reason}") from None


def valid_names(names: Sequence[object], source: str) -> list[str]:
    """Return names that LightGBM's text format allows; raise InvalidData if two become equal."""
    valid = [_INVALID_IN_NAMES.sub("_", str(name)) for name in names]
    if len(set(valid)) < len(valid):
        repeated = max(valid, key=valid.count)
        raise InvalidData(f"{source}: two features are named {repeated}; names must be unique")
    return valid


def _nearest(name: str, schema: pa.Schema) -> str:
    lower = {other.lower(): other for other in schema.names}
    matches = difflib.get_close_matches(name.lower(), lower, n=1)
    return f"did you mean {lower[matches[0]]}? " if matches else ""


def _present(schema: pa.Schema) -> str:
    more = ", ..." if len(schema.names) > _COLUMNS_SHOWN else ""
    return f"it has {', '.join(schema.names[:_COLUMNS_SHOWN])}{more}"
