"""Clicks weighted by position or by policy: the bias and the variance of click metrics.

    python -m tests.bench.exposure [--replications 300]

`evaluate.weights` is `position` (clicks / theta) or `policy` (clicks of a document over its mean
theta). 300 queries of ten documents have several rankings of 20 sessions each. Rankings differ by
noise of a given standard deviation, and relevance is the same in all of them. In the last worlds
the relevance of a document differs between rankings, and the ranker follows it (personal rankings).
A row is a metric: its truth, the means of both estimators, and the ratio of their variances, by
position over by policy, for given queries.
"""

from __future__ import annotations

import argparse

import numpy as np

K = 10
THETA = 1 / np.arange(1, K + 1)
QUERIES, SESSIONS = 300, 20
LOGGED = 1 / np.log2(2 + np.arange(K))


def shared_world(rng, rankings: int, noise: float):
    """Return relevance and model discount by displayed position, and the displayed documents."""
    relevance = 0.1 + 0.9 * (2.0 ** rng.integers(0, 5, (QUERIES, 1, K)) - 1) / 15
    score = 2 * relevance + rng.normal(size=(QUERIES, 1, K))
    shown = np.argsort(-score - noise * rng.normal(size=(QUERIES, rankings, K)), axis=2)
    model = 2 * relevance + 0.7 * rng.normal(size=(QUERIES, 1, K))
    return displayed(np.repeat(relevance, rankings, axis=1), model, shown)


def personal_world(rng, rankings: int, spread: float):
    """The logit of relevance has a part of its ranking, which the ranker knows with noise."""
    common = rng.normal(size=(QUERIES, 1, K))
    taste = common + spread * rng.normal(size=(QUERIES, rankings, K))
    shown = np.argsort(-taste - 0.7 * rng.normal(size=taste.shape), axis=2)
    return displayed(1 / (1 + np.exp(1 - 1.5 * taste)), taste.mean(axis=1, keepdims=True), shown)


def displayed(relevance, model, shown):
    rank = np.argsort(np.argsort(-model, axis=2), axis=2) + 1
    discount = np.repeat(1 / np.log2(1 + rank), shown.shape[1], axis=1)
    at = [np.take_along_axis(values, shown, axis=2) for values in (relevance, discount)]
    return (*at, shown)


def metrics(rhat, discount):
    """Return IPS and SNIPS DCG of the model, and the difference of the first to the logged one."""
    sessions = rhat.shape[0] * rhat.shape[1] * SESSIONS
    dcg, lead = (rhat * discount).sum(), (rhat * (discount - LOGGED)).sum()
    return np.array([dcg / sessions, lead / sessions, dcg / rhat.sum(), lead / rhat.sum()])


def by_policy(clicks, shown):
    """Return each document's relevance from all its positions, at every place it was shown."""
    total, exposed = np.zeros((2, QUERIES, K))
    at = np.arange(QUERIES)[:, None, None], shown
    np.add.at(total, at, clicks)
    np.add.at(exposed, at, SESSIONS * np.broadcast_to(THETA, shown.shape))
    return SESSIONS * (total / exposed)[at]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--replications", type=int, default=300)
    count = parser.parse_args().replications
    rng = np.random.default_rng(1)
    worlds = {f"{n} rankings, noise {noise}": shared_world(rng, n, noise)
              for n, noise in ((4, 0.3), (4, 1.0), (10, 1.0), (10, 3.0))}  # fmt: skip
    worlds |= {f"10 personal rankings, spread {s}": personal_world(rng, 10, s) for s in (0.5, 1.0)}
    print("| world | metric | truth | by position | by policy | variance ratio |")
    print("|---|---|---|---|---|---|")
    for name, (relevance, discount, shown) in worlds.items():
        truth = metrics(SESSIONS * relevance, discount)
        found = []
        for _ in range(count):
            clicks = rng.binomial(SESSIONS, relevance * THETA)
            found.append([metrics(clicks / THETA, discount),
                          metrics(by_policy(clicks, shown), discount)])  # fmt: skip
        mean, variance = np.mean(found, axis=0), np.var(found, axis=0)
        for n, metric in enumerate(("IPS DCG", "IPS lead", "SNIPS DCG", "SNIPS lead")):
            print(f"| {name} | {metric} | {truth[n]:.3f} | {mean[0, n]:.3f} | {mean[1, n]:.3f} | "
                  f"{variance[0, n] / variance[1, n]:.2f} |")  # fmt: skip


if __name__ == "__main__":
    main()
