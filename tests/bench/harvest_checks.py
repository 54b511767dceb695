"""How often the checks of harvesting raise a note (docs/methods.md section 3.6).

    python -m tests.bench.harvest_checks [--logs 20] [--worlds random ...] [--queries 50 200 800]

Worlds: rankings that change at random, relevance that moves from day to day with the ranker behind
it, and rankings that follow the user. Six positions, theta = 1 / k, 6 days, 30 pages per query and
day. A cell is the share of logs with a p-value below .05 / .01.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from tests.support.rank_worlds import POSITIONS, THETA, WORLDS, harvest_of, rank_log
from ulr.propensity.harvest_checks import harvest_findings
from ulr.propensity.harvesting import harvested_curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--worlds", nargs="+", default=WORLDS, choices=WORLDS)
    parser.add_argument("--queries", nargs="+", type=int, default=[50, 200, 800])
    parser.add_argument("--seed", type=int, default=0, help="of the first log")
    options = parser.parse_args()
    table = Table("rankings", "queries", "pages", "theta(6) / truth", "days", "relevance")
    for world in options.worlds:
        for queries in options.queries:
            ratio, p = [], []
            for seed in range(options.seed, options.seed + options.logs):
                log = rank_log(world, np.random.default_rng(seed), queries=queries)
                sums = harvest_of(*log)
                curve = harvested_curve(sums, POSITIONS, form="all_pairs", min_clicks=20)
                findings = harvest_findings(sums, curve, min_clicks=20, significance=0.01)
                ratio.append(curve.theta[-1] / THETA[-1])
                p.append([f.p_value for f in findings])
            shares = [np.mean(np.array(p) < level, axis=0) for level in (0.05, 0.01)]
            cells = [f"{five:.0%} / {one:.0%}" for five, one in zip(*shares, strict=True)]
            pages = f"{queries * log[0].shape[1] * log[0].shape[2]:,}"
            table.add_row(world, str(queries), pages, f"{np.mean(ratio):.2f}", *cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
