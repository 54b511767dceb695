"""Coverage of the 95% intervals that the product prints, in simulations with known truth.

    python -m tests.bench.coverage [--quick] [--replications 300] [--seed 1] [--pages 100000]

A cell is the percentage of intervals that contain the truth, over positions, pairs of positions or
two models, and over replications. Goal: 93 to 97; cells outside are in bold, and those outside by
more than two standard errors of the simulation are named below the table. Queries are redrawn in
every replication, with 50 sessions each on average; traffic is even or follows Zipf's law. theta is
1 / k at 10 positions, examination is independent. Click metrics use the propensities of a swap
experiment of --pages pages (affine: ten times as many), read back from the published tables. A
difference is that of two models. Curves learned without an experiment use six rankings of each
query. Everything runs in one process, without Spark.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tests.support.coverage_worlds import (
    ALPHA,
    BETA,
    THETA,
    K,
    Queries,
    World,
    harvest_of,
)
from ulr.config.load import load_settings
from ulr.config.settings import Propensities
from ulr.evaluation.estimate import Estimate
from ulr.evaluation.metrics import EvaluationPlan, compute_metrics, load_evidence
from ulr.evaluation.totals import difference, total
from ulr.propensity.affine import regressions
from ulr.propensity.curve import ThetaCurve
from ulr.propensity.estimators import Evidence, estimate_theta
from ulr.propensity.examination import Examination, examination_of
from ulr.propensity.segments import SegmentResult, estimate_segments
from ulr.propensity.swap_counts import SwapCounts
from ulr.propensity.tables import curve_table, joint_table

DEFAULTS = load_settings(None)
SESSIONS = 50  # per query
POPULATION = 400_000  # queries whose mean is the truth
EM_REPLICATIONS = 20  # the estimator fits nine models
WORLDS = [World(queries, zipf) for zipf in (False, True) for queries in (200, 2000)]
METRICS = ("ips_dcg", "snips_dcg", "ips_mean_relevant_rank", "snips_precision_at_3", "pair_loss")
LEARNED = ("all_pairs", "pivot", "adjacent")
Hits = Iterator[tuple[str, np.ndarray]]  # an interval's name, and whether each contains the truth


def settings_of(estimator: str) -> Propensities:
    """Return the default settings; psi is imputed from the browsing model of the simulation."""
    return DEFAULTS.propensities.model_copy(
        update={"estimator": estimator, "browsing_model": "independent", "min_clicks": 5}
    )


def read_back(result: SegmentResult) -> Examination:
    """Publish and load."""
    return examination_of(curve_table([result]), joint_table([result]))[0]


def curve_hits(name: str, curve: ThetaCurve) -> Hits:
    lower, upper = curve.interval()
    known = ~np.isnan(curve.theta)
    known[0] = False
    truth = THETA[: curve.positions]
    yield name, ((lower <= truth) & (truth <= upper))[known]


def psi_hits(result: SegmentResult) -> Hits:
    for pair in result.pairs:
        low, high = pair.interval()
        truth = THETA[pair.k - 1] * THETA[pair.l - 1]
        yield f"psi, {pair.source}", np.array([low <= truth <= high])


def truth_of(queries: Queries) -> dict[tuple[str, str | None], dict[str, float]]:
    """Return the metrics of the population: by subject and rival, by name."""
    scores = dict(zip("ab", queries.scores, strict=True))
    r, means = queries.relevance, {}
    for name, own in scores.items():
        rank = (-own).argsort(axis=1).argsort(axis=1) + 1
        values = {"dcg": 1 / np.log2(1 + rank), "mean_relevant_rank": rank,
                  "precision_at_3": (rank <= 3) / 3}  # fmt: skip
        sums = {f"ips_{m}": (r * v).sum(axis=1).mean() for m, v in values.items()}
        sums |= {f"snips_{m}": sums[f"ips_{m}"] / r.sum(axis=1).mean() for m in values}
        loss = [r[:, i] * (1 - r[:, j]) * np.logaddexp(0, own[:, j] - own[:, i])
                for i in range(K) for j in range(K) if i != j]  # fmt: skip
        means[name] = sums | {"pair_loss": np.sum(loss, axis=0).mean() / (K * (K - 1) / 2)}
    found = {(name, None): values for name, values in means.items()}
    for a, b in combinations(means, 2):
        found[a, b] = {m: means[a][m] - means[b][m] for m in means[a]}
    return found


def metric_hits(
    world: World, rng, known: Examination, truth, label: str, *, trust: bool = False
) -> Hits:
    """Evaluate two models on one draw of queries and sessions."""
    queries = Queries.draw(rng, world.queries)
    correction = "affine" if trust else "theta"
    settings = DEFAULTS.evaluate.model_copy(
        update={"correction": correction, "precision_cuts": [3]}
    )
    plan = EvaluationPlan(settings, known)
    data = load_evidence(world.window(rng, queries, SESSIONS * world.queries, trust=trust), plan)
    columns = {
        name: compute_metrics(data, own.ravel())
        for name, own in zip("ab", queries.scores, strict=True)
    }
    for (subject, rival), values in truth.items():
        own = columns[subject] if rival is None else difference(columns[subject], columns[rival])
        raw = total(own, subject, None, rival)
        known_errors = raw.with_propensity_errors(plan.scatter).estimates()
        left_out = raw.with_propensity_errors(None).estimates()
        what = "" if rival is None else " difference"
        for key, estimate in known_errors.items():
            if key.name in METRICS and not (trust and key.name == "pair_loss"):
                yield f"{label}: {key.name}{what}", covers(estimate, values[key.name])
            if key.name == METRICS[0] and plan.scatter is not None:
                name = f"{label}, its error left out: {key.name}{what}"
                yield name, covers(left_out[key], values[key.name])


def covers(estimate: Estimate, truth: float) -> np.ndarray:
    """Return whether the interval contains the truth."""
    return np.array([estimate.lower <= truth <= estimate.upper])


def replicate(world: World, rng, truth, pages: int, *, em: bool) -> Hits:
    """Return all intervals of one replication."""
    result = estimate_segments(Evidence(world.lab.draw(rng, pages)), {}, settings_of("combined"))[0]
    yield from curve_hits("theta, swaps", result.curve)
    yield from psi_hits(result)
    exact = Examination(THETA, np.where(np.eye(K, dtype=bool), THETA, np.outer(THETA, THETA)))
    yield from metric_hits(world, rng, exact, truth, "theta exact")
    yield from metric_hits(world, rng, read_back(result), truth, "theta estimated")

    fits = regressions(world.moments(rng, pages * 10))
    settings = settings_of("affine").model_copy(update={"beta_1": float(BETA[0])})
    trust = estimate_segments(Evidence(SwapCounts(K), trust=fits), {}, settings)[0]
    yield from affine_hits(trust.curve)
    if np.isfinite(trust.curve.theta).all():
        yield from metric_hits(world, rng, read_back(trust), truth, "affine", trust=True)

    shown = world.exposures(rng, SESSIONS * 4 * world.queries)
    harvest = harvest_of(shown)
    for name in LEARNED:
        curve = estimate_theta(Evidence(SwapCounts(K), harvest=harvest), settings_of(name))
        yield from curve_hits(f"theta, {name}", curve)
    if em:
        evidence = Evidence(SwapCounts(K), exposures=shown)
        curve = estimate_theta(evidence, settings_of("regression_em"))
        yield from curve_hits("theta, regression_em without features", curve)


def affine_hits(curve: ThetaCurve) -> Hits:
    """Return the intervals of alpha, and of beta by its standard error."""
    known = ~np.isnan(curve.theta)
    known[0] = False
    lower, upper = curve.interval()
    truth = ALPHA / ALPHA[0]
    yield "alpha, affine", ((lower <= truth) & (truth <= upper))[known]
    error = np.sqrt(np.diag(curve.affine_covariance)[K:])
    yield "beta, affine", (np.abs(curve.beta - BETA) <= curve.t_quantile * error)[known]


class Cell(NamedTuple):
    """Coverage in percent and its standard error; NaN without an interval."""

    coverage: float
    error: float

    @property
    def outside(self) -> float:
        """How far the coverage is outside 93 to 97, negative if it is inside."""
        return max(93 - self.coverage, self.coverage - 97)

    def __str__(self) -> str:
        if np.isnan(self.coverage):
            return "-"
        return f"**{self.coverage:.1f}**" if self.outside > 0 else f"{self.coverage:.1f}"


NO_CELL = Cell(np.nan, np.nan)


def cell_of(replications: Sequence[Sequence[np.ndarray]]) -> Cell:
    """Return the coverage of the intervals of each replication, which are not independent."""
    parts = [np.concatenate(part) for part in replications]
    inside = np.array([part.sum() for part in parts])
    size = np.array([part.size for part in parts])
    if not size.sum():
        return NO_CELL
    mean = inside.sum() / size.sum()
    error = np.sqrt(np.sum((inside - mean * size) ** 2)) / size.sum()
    return Cell(100 * mean, 100 * float(error))


def run(worlds: Sequence[World], replications: int, seed: int, pages: int) -> dict[str, list[Cell]]:
    """Return the cells of every interval, one per world."""
    truth = truth_of(Queries.draw(np.random.default_rng(0), POPULATION))
    rows: dict[str, list[Cell]] = {}
    for number, world in enumerate(worlds):
        hits: dict[str, list[list[np.ndarray]]] = defaultdict(list)
        for n in range(replications):
            rng = np.random.default_rng([seed, number, n])
            own = defaultdict(list)
            for name, inside in replicate(world, rng, truth, pages, em=n < EM_REPLICATIONS):
                own[name].append(inside)
            for name, parts in own.items():
                hits[name].append(parts)
        for name, parts in hits.items():
            rows.setdefault(name, [NO_CELL] * len(worlds))[number] = cell_of(parts)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="20 replications, 200 queries")
    parser.add_argument("--replications", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pages", type=int, default=100_000, help="of swap experiments")
    args = parser.parse_args()
    worlds = [w for w in WORLDS if w.queries == 200] if args.quick else WORLDS
    rows = run(worlds, 20 if args.quick else args.replications, args.seed, args.pages)
    titles = [f"{'Zipf' if w.zipf else 'even'}, {w.queries:,}" for w in worlds]
    print("| interval | " + " | ".join(titles) + " |")
    print("|---" * (len(titles) + 1) + "|")
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(map(str, cells)) + " |")
    print("\nOutside 93 to 97 by more than two standard errors:")
    for name, cells in rows.items():
        for title, cell in zip(titles, cells, strict=True):
            if cell.outside > 2 * cell.error:
                print(f"- {name} ({title}): {cell.coverage:.1f} ± {cell.error:.1f}")


if __name__ == "__main__":
    main()
