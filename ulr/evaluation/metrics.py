"""Every metric: its name, which direction is better, its source, and the function that computes it.

A function returns the columns of several metrics at once. To add a metric, return its column from
one of the functions and list it in METRICS; `ulr/report/metrics.py` has the names for readers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from ulr.config.settings import Evaluate
from ulr.evaluation.counterfactual import click_metrics, estimate_relevance, new_positions
from ulr.evaluation.golden import LabelledLists, golden_metrics, load_labels
from ulr.evaluation.pairwise import pair_loss, weigh_shown
from ulr.evaluation.shown import ShownDocuments, load_shown
from ulr.evaluation.totals import Column
from ulr.features.window import Window, cut_window
from ulr.kernels.layout import WeightedPairs
from ulr.pairs.config import make_pair_config
from ulr.propensity.examination import Examination

LOGGING = "logging"  # the ranking that was shown, as a subject beside the models


@dataclass(frozen=True)
class EvaluationPlan:
    """Examination and settings of an evaluation. against: pairs of models to compare."""

    settings: Evaluate
    pooled: Examination
    by_segment: Mapping[str, Examination] = field(default_factory=dict)
    sigmoid: float = 1.0
    against: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Evidence:
    """The held-out data of some queries; it is the same for every ranking.

    shown: as far as examination is known, for clicks. whole: complete lists, for golden labels.
    """

    plan: EvaluationPlan
    shown: ShownDocuments
    whole: ShownDocuments
    labelled: LabelledLists
    rhat: np.ndarray
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
    return click_metrics(data.shown, data.rhat, ranking.ranks, data.plan.settings.precision_cuts)


def _pair_loss(data: Evidence, ranking: Ranking) -> list[Column]:
    return [pair_loss(data.shown, data.pairs, ranking.scores, sigmoid=data.plan.sigmoid)]


def _positions(data: Evidence, ranking: Ranking) -> list[Column]:
    return new_positions(data.shown, ranking.ranks)


METRICS = (
    Metric("ndcg", "higher", "golden", _golden),
    Metric("map", "higher", "golden", _golden),
    Metric("arp", "lower", "golden", _golden),
    Metric("err", "higher", "golden", _golden),
    Metric("ips_dcg", "higher", "clicks", _clicks),
    Metric("snips_dcg", "higher", "clicks", _clicks),
    Metric("ips_arp", "lower", "clicks", _clicks),
    Metric("snips_arp", "lower", "clicks", _clicks),
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
    whole = load_shown(window)
    deep = whole.lists.lengths.max(initial=0) > plan.pooled.depth
    shown = load_shown(cut_window(window, plan.pooled.depth)) if deep else whole
    affine = plan.settings.correction == "affine"
    joint = make_pair_config("joint", plan.pooled, plan.by_segment, co_click_variance=np.inf)
    return Evidence(
        plan=plan,
        shown=shown,
        whole=whole,
        labelled=load_labels(whole, plan.settings.max_label),
        rhat=estimate_relevance(shown, plan.pooled, plan.by_segment, affine=affine),
        pairs=weigh_shown(shown, joint),
    )


def compute_metrics(data: Evidence, row_scores: np.ndarray | None) -> list[Column]:
    """Return every metric of one ranking, per query. row_scores: as in Ranking."""
    scores = data.shown.document_scores(row_scores)
    ranking = Ranking(row_scores, scores, data.shown.ranks(scores))
    functions = dict.fromkeys(metric.compute for metric in METRICS)
    return [column for compute in functions for column in compute(data, ranking)]
