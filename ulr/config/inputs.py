"""Settings of what the service reads: the sections log and features."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ulr.config.section import Count, Fraction, Section

MAX_LEVELS = 16  # of feedback
_NOT_A_NAME = re.compile(r"\s*(?:\[|[-+]?[0-9.]+\s*$)")


class View(Section):
    """A table or a folder of files under the name that `log.sql` gives it."""

    path: str | None = None
    table: str | None = None
    format: Literal["parquet", "json", "csv"] = "parquet"
    ddl: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> View:
        if (self.path is None) == (self.table is None):
            raise ValueError("a view needs either path (a folder or file) or table")
        return self


class Log(Section):
    """The click log to read."""

    path: str | None
    table: str | None
    sql: str | None
    views: dict[str, View]
    where: str | None
    columns: dict[str, str]
    first_position: Literal[0, 1]
    format: Literal["parquet", "json", "csv"]
    layout: Literal["page", "impression"]
    max_bad_fraction: Fraction
    min_pages: Annotated[int, Field(ge=0)]
    max_repeated_ids: Annotated[int, Field(ge=0)]
    feedback: dict[str, Annotated[float, Field(gt=0)]]
    features: Count | list[str] | None

    @property
    def feature_count(self) -> int:
        """The number of features of a document in the column `features`; 0: it is not read."""
        return len(self.features) if isinstance(self.features, list) else self.features or 0

    @property
    def feature_names(self) -> list[str]:
        """The names of the features in the column `features`, if they have names."""
        return self.features if isinstance(self.features, list) else []

    @model_validator(mode="after")
    def _check_features(self) -> Log:
        if self.features == []:
            raise ValueError("features: name one or more features, or give their number, or null")
        if "features" in self.columns and self.features is None:
            raise ValueError(
                "columns.features: set log.features to the names of the features in each vector, "
                "as [price, stock], or to their number"
            )
        if len(set(self.feature_names)) < len(self.feature_names):
            repeated = max(self.feature_names, key=self.feature_names.count)
            raise ValueError(f"features: two features are named {repeated}; names must be unique")
        return self

    @model_validator(mode="after")
    def _check_feedback(self) -> Log:
        gains = self.feedback
        wrong = [name for name in gains if not name.strip() or _NOT_A_NAME.match(name)]
        if wrong:
            raise ValueError(
                f"feedback: {wrong[0]!r} is no name of an event; numbers in the log are levels, "
                "counted from 1, whose events are named here"
            )
        if len(set(gains.values())) < len(gains):
            raise ValueError("feedback: two events have one gain; give each event its own")
        if len(gains) > MAX_LEVELS:
            raise ValueError(f"feedback: {len(gains)} events; at most {MAX_LEVELS} are possible")
        return self

    @model_validator(mode="after")
    def _source(self) -> Log:
        if len([s for s in (self.path, self.table, self.sql) if s]) != 1:
            raise ValueError("the log is one of path, table and sql: set exactly one of them")
        if wrong := sorted(n for n in self.views if not n.isidentifier()):
            raise ValueError(f"the name of a view has letters, digits and _ only, not {wrong[0]!r}")
        return self

    @property
    def source(self) -> str:
        """The path, the table, or the names of the views that are read."""
        views = ", ".join(self.views)
        return self.path or self.table or (f"log.sql ({views})" if views else "log.sql")


class Features(Section):
    """Features of documents, and golden labels."""

    source: Literal["table", "log"]
    path: str
    table: str | None
    columns: Literal["all"] | list[str] | None
    keys: dict[Literal["query_id", "doc_id", "features", "label", "dt"], str]
    as_of: Literal["latest", "day"]

    @model_validator(mode="before")
    @classmethod
    def _of_the_log(cls, values: Any) -> Any:
        """Features of the log are those of the page's day: that is what the log records."""
        if isinstance(values, dict) and values.get("source") == "log":
            return {**values, "as_of": "day"}
        return values
