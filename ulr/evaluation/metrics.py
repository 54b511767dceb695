"""One partition judged: groups, features and models in, totals out. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.evaluation.counterfactual import click_columns, moved_columns, relevance
from ulr.evaluation.golden import Judged, golden_columns, judge
from ulr.evaluation.pairwise import pair_loss_column, weigh_shown
from ulr.evaluation.shown import ShownDocuments, see
from ulr.evaluation.totals import Column, Totals, minus, total
from ulr.features.matrix import feature_matrix
from ulr.groups.histograms import cut_lists
from ulr.kernels.layout import WeightedPairs
from ulr.pairs.config import make_pair_config
from ulr.propensity.examination import Examination

LOGGING = "logging"  # the ranking that was shown
Scorer = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class EvaluationPlan:
    """How to judge. against: whom each model is compared with, besides the logging ranking."""

    pooled: Examination
    by_segment: Mapping[str, Examination] = field(default_factory=dict)
    cuts: Sequence[int] = (1, 3, 5)
    max_label: int = 4
    sigmoid: float = 1.0
    affine: bool = False
    segments: bool = True
    against: Sequence[tuple[str, str]] = ()


def evaluate_partition(
    groups: pa.Table, features: pa.Table, scorers: Mapping[str, Scorer], plan: EvaluationPlan
) -> Totals:
    """Totals of all traffic and of every segment, for queries that are here as a whole."""
    if groups.num_rows == 0:
        return Totals()
    groups = cut_lists(groups, plan.pooled.depth)  # below, a click says nothing
    matrix = feature_matrix(features)
    scores: dict[str, np.ndarray | None] = {LOGGING: None}
    for name, scorer in scorers.items():
        scores[name] = scorer(matrix) if features.num_rows else np.zeros(0)
    found = _judge_groups(groups, features, scores, plan, None)
    if plan.segments:
        for segment in pc.unique(groups["segment"]).drop_null().to_pylist():
            own = groups.filter(pc.equal(groups["segment"], segment))
            found = found + _judge_groups(own, features, scores, plan, segment)
    return found


@dataclass(frozen=True)
class _Ground:
    """What does not depend on the model."""

    seen: ShownDocuments
    rhat: np.ndarray
    pairs: WeightedPairs
    judged: Judged


def _judge_groups(
    groups: pa.Table,
    features: pa.Table,
    scores: Mapping[str, np.ndarray | None],
    plan: EvaluationPlan,
    segment: str | None,
) -> Totals:
    seen = see(groups, features)
    pair_config = make_pair_config("joint", plan.pooled, plan.by_segment, co_click_variance=np.inf)
    ground = _Ground(
        seen,
        relevance(seen, plan.pooled, plan.by_segment, affine=plan.affine),
        weigh_shown(seen, pair_config),
        judge(seen, features, plan.max_label),
    )
    columns = {name: _columns(ground, own, plan) for name, own in scores.items()}
    found = Totals()
    for name, own in columns.items():
        found = found + total(own, name, segment)
    rivals = [(name, LOGGING) for name in scores if name != LOGGING]
    for ours, theirs in dict.fromkeys([*rivals, *plan.against]):
        gaps = minus(columns[ours], columns[theirs])
        found = found + total(gaps, ours, segment, against=theirs)
    return found


def _columns(ground: _Ground, own: np.ndarray | None, plan: EvaluationPlan) -> list[Column]:
    """Every metric of one ranking, per query."""
    seen = ground.seen
    scores = seen.document_scores(own)
    ranks = seen.ranks(scores)
    return [
        *golden_columns(seen, ground.judged, own),
        *click_columns(seen, ground.rhat, ranks, plan.cuts),
        pair_loss_column(seen, ground.pairs, scores, sigmoid=plan.sigmoid),
        *moved_columns(seen, ranks),
    ]
