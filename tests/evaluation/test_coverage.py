"""Intervals of click metrics cover the truth although theta has an error."""

import numpy as np

from tests.bench import coverage
from tests.support.coverage_worlds import THETA, K, Queries, World
from tests.support.evaluation_plans import evaluation_plan
from tests.support.pair_samples import independent_propensities
from ulr.evaluation.metrics import compute_metrics, load_evidence
from ulr.evaluation.propensity_errors import PropensityScatter
from ulr.evaluation.totals import metric_values, total
from ulr.propensity.examination_errors import ExaminationErrors

ERROR = 0.09
PSI_PARTS = np.zeros((1, 45, K)), np.zeros((1, 45, 45))


def sums_of(rng, world, theta, plan):
    queries = Queries.draw(rng, world.queries)
    data = load_evidence(world.window(rng, queries, 5 * world.queries, trust=False), plan(theta))
    return total(compute_metrics(data, queries.scores[0].ravel()), "m", None)


def population():
    queries = Queries.draw(np.random.default_rng(0), 200_000)
    rank = (-queries.scores[0]).argsort(axis=1).argsort(axis=1) + 1
    return (queries.relevance / np.log2(1 + rank)).sum(axis=1).mean()


def test_intervals_contain_the_error_of_theta():
    """theta is known to 9%. In 200 draws 95% of the intervals covered, 77% without its error."""
    covariance = np.diag([0.0, *[ERROR**2] * (K - 1)]).reshape(1, K, 1, K)
    scatter = PropensityScatter(ExaminationErrors(covariance, *PSI_PARTS), affine=False)
    world, truth = World(1500, zipf=False), population()
    base = evaluation_plan(independent_propensities(THETA), precision_cuts=[])

    def plan(theta):
        return type(base)(base.settings, independent_propensities(theta))

    inside = np.zeros((2, 60))
    for n in range(60):
        rng = np.random.default_rng([7, n])
        theta = THETA * np.exp(rng.normal(size=K) * ERROR)
        theta[0] = 1.0
        raw = sums_of(rng, world, theta, plan)
        for row, errors in enumerate((scatter, None)):
            estimate = metric_values(raw.with_propensity_errors(errors), "m")["ips_dcg"]
            inside[row, n] = estimate.lower <= truth <= estimate.upper
    covered, left_out = inside.mean(axis=1)
    assert covered >= 0.88
    assert left_out <= 0.85


def test_the_bench_of_coverage_measures_every_interval(monkeypatch):
    monkeypatch.setattr(coverage, "POPULATION", 1000)
    rows = coverage.run([World(60, zipf=True)], 2, 1, 200_000)
    names = " ".join(rows)
    for part in ("theta, swaps", "psi, estimated", "alpha", "beta", "ips_dcg", "snips_dcg",
                 "pair_loss difference", "all_pairs", "regression_em"):  # fmt: skip
        assert part in names
    assert all(0 <= cells[0].coverage <= 100 for cells in rows.values())
