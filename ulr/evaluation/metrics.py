"""Every metric: its name, which direction is better, its source, and the function that computes it.

A function returns the columns of several metrics at once. To add a metric, return its column from
one of the functions and list it in METRICS; `ulr/report/metrics.py` has the names for readers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from ulr.config.settings import Evaluate
from ulr.evaluation.counterfactual import click_metrics, new_positions
from ulr.evaluation.exposure import Relevance, curve_of_groups, estimate_relevance
from ulr.evaluation.golden import LabelledLists, golden_metrics, load_labels
from ulr.evaluation.pairwise import pair_loss, weigh_shown
from ulr.evaluation.propensity_errors import PropensityScatter, propensity_scatter
from ulr.evaluation.shown import ShownDocuments, load_shown
from ulr.evaluation.totals import Column
from ulr.features.window import Window, cut_window
from ulr.kernels.layout import WeightedPairs
from ulr.pairs.config import make_pair_config
from ulr.pairs.gains import ONE_LEVEL
from ulr.propensity.examination import Examination

LOGGING = "logging"  # the ranking that was shown, as a subject beside the models


@dataclass(frozen=True)
class EvaluationPlan:
    """Examination and settings of an evaluation. against: pairs of models to compare.

    increments: of the gains of the levels of feedback. With several levels, metrics of clicks are
    those of expected gain.
    """

    settings: Evaluate
    pooled: Examination
    by_segment: Mapping[str, Examination] = field(default_factory=dict)
    sigmoid: float = 1.0
    against: Sequence[tuple[str, str]] = ()
    increments: tuple[float, ...] = ONE_LEVEL

    @property
    def affine(self) -> bool:
        """Whether clicks are corrected for trust bias."""
        return self.settings.correction == "affine"

    @property
    def scatter(self) -> PropensityScatter | None:
        """From the gradients of a metric's sums to their covariance."""
        return propensity_scatter(self.pooled.errors, affine=self.affine)

    def for_tasks(self) -> EvaluationPlan:
        """Return the plan without errors of the propensities, which only the driver needs."""
        return replace(self, pooled=replace(self.pooled, errors=None))


@dataclass(frozen=True)
class Evidence:
    """The held-out data of some queries; it is the same for every ranking.

    shown: as far as examination is known, for clicks. whole: complete lists, for golden labels.
    """

    plan: EvaluationPlan
    shown: ShownDocuments
    whole: ShownDocuments
    labelled: LabelledLists
    relevance: Relevance
    pairs: WeightedPairs


class Ranking(NamedTuple):
    """One ranking. row_scores: float64 per row of the feature matrix, None for LOGGING.

    Per shown document: scores (float64), ranks (int64, from 1 within a list).
    """

    row_scores: np.ndarray | None
    scores: np.ndarray
    ranks: np.ndarray


class Metric(NamedTuple):
    """name: without the cut, as in `ndcg` for `ndcg_at_10`."""

    name: str
    better: Literal["higher", "lower", "neither"]
    source: Literal["golden", "clicks"]
    compute: Callable[[Evidence, Ranking], list[Column]]


def _golden(data: Evidence, ranking: Ranking) -> list[Column]:
    return golden_metrics(data.whole, data.labelled, ranking.row_scores)


def _clicks(data: Evidence, ranking: Ranking) -> list[Column]:
    cuts = data.plan.settings.precision_cuts
    return click_metrics(data.shown, data.relevance, ranking.ranks, cuts)


def _pair_loss(data: Evidence, ranking: Ranking) -> list[Column]:
    plan = data.plan
    theta = np.stack([own.theta for own in (plan.pooled, *plan.by_segment.values())])
    loss = pair_loss(
        data.shown, data.pairs, ranking.scores, theta, sigmoid=plan.sigmoid,
        curve=curve_of_groups(data.shown, plan.by_segment),
        width=theta.shape[1] * (2 if plan.affine else 1),
    )  # fmt: skip
    return [loss]


def _positions(data: Evidence, ranking: Ranking) -> list[Column]:
    return new_positions(data.shown, ranking.ranks)


METRICS = (
    Metric("ndcg", "higher", "golden", _golden),
    Metric("map", "higher", "golden", _golden),
    Metric("mean_relevant_rank", "lower", "golden", _golden),
    Metric("err", "higher", "golden", _golden),
    Metric("ips_dcg", "higher", "clicks", _clicks),
    Metric("snips_dcg", "higher", "clicks", _clicks),
    Metric("ips_mean_relevant_rank", "lower", "clicks", _clicks),
    Metric("snips_mean_relevant_rank", "lower", "clicks", _clicks),
    Metric("ips_precision", "higher", "clicks", _clicks),
    Metric("snips_precision", "higher", "clicks", _clicks),
    Metric("pair_loss", "lower", "clicks", _pair_loss),
    Metric("position_after", "neither", "clicks", _positions),
)
_LOWER_IS_BETTER = {metric.name for metric in METRICS if metric.better == "lower"}


def is_lower_better(name: str) -> bool:
    """Return whether a lower value of the metric is better; name: with or without a cut."""
    return name.partition("_at_")[0] in _LOWER_IS_BETTER


def load_evidence(window: Window, plan: EvaluationPlan) -> Evidence:
    """Prepare the held-out data of a window's queries."""
    whole = load_shown(window, plan.increments)
    deep = whole.lists.lengths.max(initial=0) > plan.pooled.depth
    shown = whole
    if deep:
        shown = load_shown(cut_window(window, plan.pooled.depth), plan.increments)
    policy = plan.settings.weights == "policy"
    joint = make_pair_config("joint", plan.pooled, plan.by_segment, co_click_variance=np.inf)
    return Evidence(
        plan=plan,
        shown=shown,
        whole=whole,
        labelled=load_labels(whole, plan.settings.max_label),
        relevance=estimate_relevance(
            shown,
            plan.pooled,
            plan.by_segment,
            affine=plan.affine,
            policy=policy,
            gain=sum(plan.increments),
        ),
        pairs=weigh_shown(shown, joint, plan.increments),
    )


def compute_metrics(data: Evidence, row_scores: np.ndarray | None) -> list[Column]:
    """Return every metric of one ranking, per query. row_scores: as in Ranking."""
    scores = data.shown.document_scores(row_scores)
    ranking = Ranking(row_scores, scores, data.shown.ranks(scores))
    functions = dict.fromkeys(metric.compute for metric in METRICS)
    return [column for compute in functions for column in compute(data, ranking)]
