"""Names and types of all settings: one frozen model per section.

The defaults and the meaning of each setting are in `conf/base.yaml` only.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ulr.experiments.buckets import parse_bucket

Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
MAX_LEVELS = 16  # of feedback
_NOT_A_NAME = re.compile(r"\s*(?:\[|[-+]?[0-9.]+\s*$)")


class Section(BaseModel):
    """A group of settings; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Warehouse(Section):
    """Where the tables are, and how long they are kept."""

    path: str
    keep_days: Annotated[float, Field(ge=0)]
    retention_days: Count | None
    quarantine_days: Count | None
    views: dict[Literal["duckdb", "spark", "trino"], str]


class Examination(Section):
    """How simulated users examine a page."""

    model: Literal["independent", "continuous", "row_skipping", "cascade", "single_choice"]
    curve: Literal["power", "eye_tracking"]
    eta: Annotated[float, Field(ge=0)]
    width: Count
    gamma: Fraction
    continue_probability: Fraction
    phi: Fraction | Literal["relevance"]
    beta: Fraction


class Clicks(Section):
    """Click probabilities of simulated users."""

    positive: Fraction
    negative: Fraction
    trust: Fraction


class Segment(Section):
    """A fraction of the traffic with a separate examination curve."""

    name: str
    fraction: Fraction
    eta: Annotated[float, Field(ge=0)]


class Swap(Section):
    """A swap experiment, or a family of experiments with equal traffic."""

    kind: Literal["single", "adjacent", "pair", "shuffle"] | None = None
    bucket: str | None = None
    fraction: Fraction

    @model_validator(mode="after")
    def _one_of_two(self) -> Swap:
        if (self.kind is None) == (self.bucket is None):
            raise ValueError(
                "give either kind (single, adjacent, pair, shuffle) or bucket (such as 1:5)"
            )
        if self.bucket is not None:
            parse_bucket(self.bucket)
        return self

    @property
    def last_position(self) -> int:
        """Deepest position of the first bucket."""
        if self.bucket is not None:
            return parse_bucket(self.bucket).last_position
        return {"pair": 3, "shuffle": 1}.get(self.kind or "", 2)


class Simulate(Section):
    """A simulated log."""

    path: str
    seed: int
    layout: Literal["page", "impression", "ubi"]
    start: dt.date
    days: Count
    pages_per_day: Count
    max_clicks: Count | None
    pages_per_file: Count
    letor: list[str]
    queries: Count
    docs_per_query: Count
    features: Annotated[int, Field(ge=8)]
    positions: Count
    zipf: Annotated[float, Field(ge=0)]
    hot_query_fraction: Fraction
    ranker_queries: Fraction
    drift: Annotated[float, Field(ge=0)]
    relevance_noise: Fraction
    binarize: Count | None
    examination: Examination
    clicks: Clicks
    feedback: dict[str, Fraction]
    segments: list[Segment]
    swaps: list[Swap]

    @model_validator(mode="after")
    def _fractions(self) -> Simulate:
        if sum(s.fraction for s in self.swaps) > 1 + 1e-9:
            raise ValueError("swaps: the fractions add up to more than 1")
        if self.segments and abs(sum(s.fraction for s in self.segments) - 1) > 1e-9:
            raise ValueError("segments: the fractions must add up to 1")
        for swap in self.swaps:
            if swap.last_position > self.positions:
                raise ValueError(
                    f"swaps: {swap.kind or swap.bucket} needs {swap.last_position} positions, "
                    f"positions is {self.positions}; give more, or other swaps"
                )
        return self


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


class Groups(Section):
    """Click-pattern histograms."""

    max_position: Count
    partitions: Count | None


class Given(Section):
    """A known examination curve."""

    theta: list[float]
    file: str | None


class Harvest(Section):
    """Estimates from natural rank changes."""

    weight: Literal["pooled", "document"]
    blocks: Annotated[int, Field(ge=3)]


class RegressionEm(Section):
    """Regression EM."""

    features: bool
    queries: Count
    rounds: Count
    trees: Count
    leaves: Annotated[int, Field(ge=2)]


class Propensities(Section):
    """Estimation of theta and psi."""

    estimator: Literal[
        "auto", "single_swap", "adjacent_chain", "combined", "shuffle", "all_pairs", "pivot",
        "adjacent", "regression_em", "affine", "given",
    ]  # fmt: skip
    joint: Literal["all_swaps", "pair_swaps", "none"]
    browsing_model: Literal["auto", "independent", "continuous", "row_skipping"]
    row_width: Count
    window_days: Count
    max_position: Count
    depth: Literal["imputed", "estimated"]
    min_clicks: Count
    min_coclicks: Count
    monotone: bool
    segments: bool
    test_trust: bool
    beta_1: Annotated[float, Field(ge=0, lt=1)]
    theta_1: Annotated[float, Field(gt=0, le=1)] | None
    significance: Annotated[float, Field(gt=0, lt=1)]
    given: Given
    harvest: Harvest
    regression_em: RegressionEm

    @model_validator(mode="after")
    def _room_for_relevance(self) -> Propensities:
        if self.theta_1 is not None and self.beta_1 >= self.theta_1:
            raise ValueError("beta_1, the clicks without relevance, must be below theta_1")
        return self


class PlanSwaps(Section):
    """The design of a swap experiment."""

    plan: str | None
    salt: str
    fraction: Annotated[float, Field(gt=0, le=1)]
    positions: Annotated[int, Field(ge=2)]
    theta_error: Annotated[float, Field(gt=0)]
    psi_error: Annotated[float, Field(gt=0)]
    pairs: bool


Method = Literal[
    "auto", "naive", "robust", "robust+", "ips-all", "pns", "prs", "joint", "affine", "cascade",
    "unbiased-lambdamart", "dla", "labels",
]  # fmt: skip


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


class Pairs(Section):
    """The table of weighted pairs."""

    method: Method
    propensities: str
    grouping: Literal["ranking", "query"]
    session_weight: Literal["none", "idcg"]
    precision: bool
    saturation: Annotated[float, Field(gt=0)]
    co_click_variance: Annotated[float, Field(ge=0)] | Literal["auto"]
    propensity_floor: Fraction
    weight_cap: Annotated[float, Field(gt=0)]
    prs_clip: Annotated[float, Field(gt=0)]
    missing_features: Literal["drop", "error"]
    test_fraction: Annotated[float, Field(ge=0, lt=1)]
    partitions: Count | None


class Train(Section):
    """Training of the ranking model."""

    num_iterations: Count
    ranker: Literal["trees", "linear"]
    objective: Literal["lambdarank", "ranknet"]
    linear_loss: Literal["logistic", "hinge"]
    l2: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    nonnegative_weights: bool
    validation_fraction: Annotated[float, Field(ge=0, lt=1)]
    early_stopping_metric: Annotated[str, Field(pattern=r"^(pair_loss|ndcg_at_[1-9][0-9]*)$")]
    early_stopping_round: Annotated[int, Field(ge=0)]
    bias_regularization: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    bias_rounds: Annotated[int, Field(ge=0)]
    fixed_click_bias: bool
    position_bins: Count
    num_workers: Count
    checkpoint_every: Count
    worker_timeout: Annotated[float, Field(gt=0)]
    max_retries: Annotated[int, Field(ge=0)]
    max_concurrent_runs: Annotated[int, Field(ge=0)]


class Nightly(Section):
    """Further models of a night."""

    baselines: list[Method]


class Compare(Section):
    """Comparison of several methods on one log."""

    methods: list[Method]
    test_fraction: Annotated[float, Field(gt=0, lt=1)]


class Evaluate(Section):
    """Evaluation of models."""

    holdout: Literal["query", "time", "none"]
    correction: Literal["theta", "affine"]
    weights: Literal["position", "policy"]
    precision_cuts: list[Count]
    max_label: Count
    segments: bool
    partitions: Count | None


class Mlflow(Section):
    """The model registry."""

    tracking_uri: str | None
    registry_uri: str | None
    local_path: str
    experiment: str
    registered_model: str
    retries: Annotated[int, Field(ge=0, le=10)]
    backoff: Annotated[int, Field(ge=0)]
    live: bool


class Promote(Section):
    """The gate between challenger and champion."""

    metric: str
    margin: Annotated[float, Field(ge=0, lt=1)]
    anchor_days: Annotated[int, Field(ge=0)]
    undecided: Literal["estimate", "keep", "promote"]
    min_effective_clicks: Annotated[float, Field(ge=0)]
    min_effective_queries: Annotated[float, Field(ge=0)]
    diagnostics: Literal["note", "warning", "refused", "ignore"]
    export: list[Literal["opensearch", "elasticsearch", "solr", "vespa", "onnx"]]


class Score(Section):
    """Batch scoring."""

    partitions: Count | None


class Settings(Section):
    """All settings, one section per stage."""

    warehouse: Warehouse
    spark: dict[str, str | int | float | bool]
    simulate: Simulate
    log: Log
    groups: Groups
    propensities: Propensities
    plan_swaps: PlanSwaps
    features: Features
    pairs: Pairs
    train: Train
    lightgbm: dict[str, str | int | float | bool | list[float]]
    nightly: Nightly
    compare: Compare
    evaluate: Evaluate
    mlflow: Mlflow
    promote: Promote
    score: Score

    @model_validator(mode="after")
    def _features_of_the_log(self) -> Settings:
        features = self.features
        if features.source == "log" and self.log.features is None:
            raise ValueError(
                "features.source=log reads what the log's column features holds; set log.features "
                "to the names of the features in each vector, as [price, stock], or to their number"
            )
        if features.source == "log" and (features.columns is not None or features.keys):
            raise ValueError(
                "features.source=log: features.columns and features.keys are those of a features "
                "table; leave them out, and map the log's columns by log.columns"
            )
        return self

    def with_method(self, method: str) -> Settings:
        """Return the settings with another method."""
        return self.model_copy(update={"pairs": self.pairs.model_copy(update={"method": method})})
