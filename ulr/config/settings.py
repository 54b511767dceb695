"""Names and types of all settings: one frozen model per section.

The defaults and the meaning of each setting are in `conf/base.yaml` only.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ulr.config.inputs import Features, Log
from ulr.config.section import Count, Fraction, Section
from ulr.config.simulation import Simulate


class Warehouse(Section):
    """Where the tables are, and how long they are kept."""

    path: str
    keep_days: Annotated[float, Field(ge=0)]
    retention_days: Count | None
    quarantine_days: Count | None
    views: dict[Literal["duckdb", "spark", "trino"], str]


class Local(Section):
    """The local engine."""

    processes: Count | None
    scratch: str | None
    memory_fraction: Annotated[float, Field(gt=0, le=1)]


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
    """All settings: the engine, then a section per stage."""

    engine: Literal["auto", "local", "spark"]
    local: Local
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
