"""Rejection rates of `ulr ab` without a difference, under Zipf traffic.

python -m tests.bench.ab [replications]
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import stats

from tests.support.ab_loops import null_pages
from ulr.evaluation.ab.totals import Served, compare, total

LEVELS = (0.01, 0.05, 0.2)
WORLDS = [(0.0, 0.5), (0.8, 0.5), (1.0, 0.5), (1.0, 0.1), (1.3, 0.5), (1.3, 0.1), (1.6, 0.5)]


def by_query(rng: np.random.Generator, served: Served) -> Served:
    """Give all pages of a query to one ranker."""
    side = rng.random(len(served.pages)) < 0.5
    own = np.stack([side, ~side], axis=1)
    pages = served.pages.sum(axis=1)[:, None] * own
    return Served(pages, served.events.sum(axis=2)[:, :, None] * own, served.seeds)


def naive_p(served: Served) -> float:
    """Return the p-value of a test of two proportions on pages."""
    n, x = served.pages.sum(axis=0), served.events[0].sum(axis=0)
    p = x.sum() / n.sum()
    z = (x[0] / n[0] - x[1] / n[1]) / np.sqrt(p * (1 - p) * (1 / n).sum())
    return float(2 * stats.norm.sf(abs(z)))


def rates(values: list[float]) -> str:
    return " ".join(f"{np.mean(np.array(values) < level):6.3f}" for level in LEVELS)


def main() -> None:
    """Print a row per world: shares of p-values below 0.01, 0.05 and 0.2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("replications", type=int, nargs="?", default=2000)
    rounds = parser.parse_args().replications
    print(f"{rounds} tests each; levels {LEVELS}")
    print(f"{'assigned':9} {'zipf':>4} {'share':>5} {'head':>5}  {'clustered':21}"
          f" {'two proportions':21} sign test")  # fmt: skip
    for unit in ("page", "query"):
        for zipf, share in WORLDS if unit == "page" else [(0.0, 0.5), (0.7, 0.5), (1.0, 0.5)]:
            rng = np.random.default_rng(3)
            ours, naive, signs = [], [], []
            for _ in range(rounds):
                served = null_pages(rng, zipf=zipf, share=share, pages=6_000)
                served = by_query(rng, served) if unit == "query" else served
                result = compare(total(served))[0]
                ours.append(result.p_value)
                naive.append(naive_p(served))
                signs.append(result.sign_p_value)
            weight = np.arange(1, 401.0) ** -zipf
            print(f"{unit:9} {zipf:4} {share:5} {1 / weight.sum():5.0%}  {rates(ours)}"
                  f"   {rates(naive)}   {rates(signs)}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
