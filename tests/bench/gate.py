"""Promotion rates of the gate by true difference, and the loss of 20 nights of worse challengers.

Nights have even or Zipf traffic over held-out queries and a given standard error of the difference
between two models. `before` is the rule "not worse beyond the 95% interval", without an anchor.

python -m tests.bench.gate [--nights 2000]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from tests.support.gate_nights import Nights, even, zipf
from ulr.evaluation.totals import Column
from ulr.registry.gate import Check

TRAFFIC = {"even, 500 queries": even(500), "Zipf, 2,000 queries": zipf(2000)}
ERRORS = (0.002, 0.0035, 0.005, 0.01, 0.02)
GAINS = (0.01, 0.005, 0.0, -0.005, -0.01, -0.02)
STEP, STEPS = 0.004, 20


@dataclass(frozen=True)
class Before(Nights):
    """The rule before the margin and the anchor: an interval below 0 is refused."""

    def check(self, challenger: Column, rival: Column, *, anchor: bool) -> Check:
        comparison = self.compare(challenger, rival)
        return Check(comparison.upper >= 0, "")


def rates(nights: Nights, count: int) -> list[float]:
    """Return the promotion rate of every true difference."""
    return [nights.promotion_rate(seed, gain, count) for seed, gain in enumerate(GAINS)]


def loss(nights: Nights, runs: int) -> tuple[float, float]:
    """Return the mean loss after 20 nights, and its standard error."""
    losses = [nights.slide(seed, STEP, STEPS) for seed in range(runs)]
    return float(np.mean(losses)), float(np.std(losses) / np.sqrt(runs))


def main() -> None:
    """Print one table: a row per traffic and standard error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=2000, help="per promotion rate")
    count = parser.parse_args().nights
    heads = [f"{gain:+.1%}" for gain in GAINS]
    print(f"| traffic | error | {' | '.join(heads)} | 20 nights | before |")
    print("|---" * (len(heads) + 4) + "|")
    for traffic, sessions in TRAFFIC.items():
        for error in ERRORS:
            nights, before = Nights(sessions, error), Before(sessions, error, anchor=None)
            cells = [f"{rate:.0%}" for rate in rates(nights, count)]
            losses = [
                f"{mean:.2%} ± {deviation:.2%}"
                for mean, deviation in (loss(n, count // 10) for n in (nights, before))
            ]
            print(f"| {traffic} | {error:.2%} | {' | '.join([*cells, *losses])} |", flush=True)


if __name__ == "__main__":
    main()
