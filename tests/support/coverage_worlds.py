"""Worlds of queries whose truth is known, drawn as the data that estimators and evaluation read.

A world has queries of random relevance and even or Zipf traffic. What is to be covered is the value
over the population that the queries are drawn from.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
import pyarrow as pa

from tests.support.swap_lab import SwapLab, click_model, single_buckets
from ulr.features.window import Window
from ulr.kernels.layout import Histograms, Patterns, offsets_of
from ulr.propensity.exposures import Exposures
from ulr.propensity.schema import harvest_schema, moments_schema
from ulr.simulate.browsing import Independent
from ulr.simulate.clicks import relevance_of, trust_curve

K = 10
THETA = 1 / np.arange(1, K + 1)
TRUST = trust_curve(K, 0.1, 0.3)
ALPHA, BETA = THETA * (1 - TRUST), THETA * TRUST
BLOCKS = 32


@dataclass(frozen=True)
class Queries:
    """Relevance and the scores of two models: float64, queries x K, in displayed order."""

    relevance: np.ndarray
    scores: np.ndarray

    @classmethod
    def draw(cls, rng: np.random.Generator, count: int) -> Queries:
        """Draw queries whose displayed order and whose models are better than random."""
        labels = rng.integers(0, 5, (count, K))
        sorts = rng.random((count, K)) < 0.5
        labels = np.where(sorts, -np.sort(-labels, axis=1), labels)
        relevance = relevance_of(labels, 4, 0.1) * np.minimum(1, rng.uniform(0.2, 1.7, (count, 1)))
        noise = rng.normal(size=(2, count, K)) * np.array([0.2, 0.4])[:, None, None]
        return cls(relevance, relevance + noise)


@dataclass(frozen=True)
class World:
    """A number of queries with even traffic, or with that of Zipf's law."""

    queries: int
    zipf: bool

    @property
    def share(self) -> np.ndarray:
        """The queries' shares of the traffic."""
        weight = np.arange(1, self.queries + 1.0) ** (-1.0 if self.zipf else 0.0)
        return weight / weight.sum()

    @cached_property
    def lab(self) -> SwapLab:
        """Single swaps, without trust bias."""
        relevance = Queries.draw(np.random.default_rng(self.queries), self.queries).relevance
        model = click_model(Independent(THETA), K)
        return SwapLab(model, relevance, single_buckets(K), self.share)

    def window(
        self, rng: np.random.Generator, queries: Queries, sessions: int, *, trust: bool
    ) -> Window:
        """Return held-out sessions; every query has one ranking."""
        chance = ALPHA * queries.relevance + BETA if trust else THETA * queries.relevance
        query = np.repeat(np.arange(self.queries), rng.multinomial(sessions, self.share))
        word = (rng.random((sessions, K)) < chance[query]) @ (1 << np.arange(K))
        both, counts = np.unique(query << K | word, return_counts=True)
        asked, number = np.unique(both >> K, return_inverse=True)
        patterns = offsets_of(np.bincount(number))
        rows = np.arange(self.queries * K).reshape(-1, K)[asked].ravel()
        names = pa.array(np.char.mod("%d", rows).tolist())
        documents = offsets_of(np.full(asked.size, K))
        return Window(
            query_ids=names[: asked.size],
            query=np.arange(asked.size),
            segment=pa.nulls(asked.size, pa.string()),
            histograms=Histograms(
                documents, Patterns(patterns, both & (1 << K) - 1, patterns, counts)
            ),
            row_of=np.arange(rows.size),
            query_rows=documents,
            names=names,
            labels=np.full(rows.size, -1, np.int32),
            feature_row=rows,
            matrix=np.zeros((rows.size, 0), np.float32),
        )

    def moments(self, rng: np.random.Generator, pages: int) -> pa.Table:
        """Return the moments of swaps 1:k under trust bias: rows of `moments_schema`."""
        relevance = Queries.draw(rng, self.queries).relevance
        block = rng.permutation(self.queries) % BLOCKS
        parts = []
        for k in range(2, K + 1):
            asked = rng.multinomial(pages // (K - 1), self.share)
            swapped = rng.binomial(asked, 0.5)
            sums = np.zeros((BLOCKS, 9))
            for ranked, n, m in ((1, asked - swapped, swapped), (k, swapped, asked - swapped)):
                of = relevance[:, ranked - 1]
                c = rng.binomial(n, ALPHA[0] * of + BETA[0])
                d = rng.binomial(m, ALPHA[k - 1] * of + BETA[k - 1])
                np.add.at(sums, block, _moments(c, d, n, m))
            part = {"segment": pa.nulls(BLOCKS), "bucket": [f"1:{k}"] * BLOCKS}
            part |= {"block": np.arange(BLOCKS), "documents": sums[:, 0].astype(np.int64)}
            part |= dict(zip(moments_schema.names[4:], sums[:, 1:].T, strict=True))
            parts.append(pa.table(part).cast(moments_schema))
        return pa.concat_tables(parts)

    def exposures(self, rng: np.random.Generator, sessions: int, rankings: int = 6) -> Exposures:
        """Return documents whose ranks differ at random between the rankings of a query."""
        relevance = Queries.draw(rng, self.queries).relevance
        asked = rng.multinomial(sessions, self.share)
        shown = rng.multinomial(asked, np.full(rankings, 1 / rankings))
        place = (np.arange(K) + rng.normal(size=(self.queries, rankings, K)) * 2).argsort(axis=2)
        impressions = np.zeros((self.queries, K, K))
        query = np.arange(self.queries)[:, None, None]
        np.add.at(impressions, (query, place, np.arange(K)), shown[:, :, None])
        clicks = rng.binomial(impressions.astype(np.int64), relevance[:, :, None] * THETA)
        query, document, position = np.nonzero(impressions)
        at = query, document, position
        return Exposures(
            query * K + document, position, clicks[at].astype(float), impressions[at],
            np.repeat(rng.permutation(self.queries) % BLOCKS, K),
        )  # fmt: skip


def _moments(c: np.ndarray, d: np.ndarray, n: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Return documents, x^0..4 and x^0..2 y with weight n m / (n + m): documents x 9."""
    often = (n > 3) & (m > 0)
    n, m = np.where(often, n, 9), np.where(often, m, 1)
    weight = np.where(often, n * m / (n + m), 0.0)
    powers = [np.ones(n.size)]
    for lost in range(4):
        powers.append(powers[-1] * (c - lost) / (n - lost))
    x = np.stack(powers, axis=1) * weight[:, None]
    return np.hstack([often[:, None], x, x[:, :3] * (d / m)[:, None]])


def harvest_of(shown: Exposures) -> pa.Table:
    """Return the exposures' rows of `harvest_schema`, documents weighted by impressions."""
    n, c = np.zeros((2, shown.documents, K))
    n[shown.document, shown.position] = shown.impressions
    c[shown.document, shown.position] = shown.clicks
    rate = np.divide(c, n, out=np.zeros_like(c), where=n > 0)
    parts = []
    for k, v in permutations(range(K), 2):
        weight = n[:, k] * n[:, v] / np.maximum(n[:, k] + n[:, v], 1)
        part = {"segment": pa.nulls(BLOCKS), "block": np.arange(BLOCKS)}
        part |= {"k": np.full(BLOCKS, k + 1), "l": np.full(BLOCKS, v + 1)}
        part |= {"clicks": np.bincount(shown.block, weight * rate[:, k], BLOCKS)}
        part |= {"impressions": np.bincount(shown.block, weight, BLOCKS)}
        part |= {"documents": np.bincount(shown.block, weight > 0, BLOCKS).astype(np.int64)}
        part |= {name: np.zeros(BLOCKS) for name in ("within", "between", "steep")}  # of checks
        parts.append(pa.table(part).cast(harvest_schema))
    return pa.concat_tables(parts)
