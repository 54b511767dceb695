"""Queries, documents, features and graded labels: synthetic, or read from LETOR files.

The utility of the synthetic world is nonlinear (an interaction, an absolute value, a sine, a step,
a maximum), so that trees can be clearly better than the linear production ranker. Queries are drawn
in blocks with separate random streams, so that any task can draw any block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.features.letor import JudgedDocuments
from ulr.simulate.randomness import stream

BLOCK = 1024
MIN_FEATURES = 8
LABEL_QUANTILES = (0.50, 0.75, 0.90, 0.97)
MAX_LABEL = len(LABEL_QUANTILES)


@dataclass(frozen=True)
class Names:
    """Query ids, document ids grouped by query, and the number of documents of each query."""

    queries: pa.Array
    documents: pa.Array
    doc_counts: np.ndarray

    @property
    def query_of_document(self) -> pa.Array:
        """The query id of every document."""
        rows = np.repeat(np.arange(self.doc_counts.size), self.doc_counts)
        return self.queries.take(pa.array(rows))


@dataclass(frozen=True)
class WorldBlock:
    """Some queries with all documents. features: float32, documents x width; labels: int32."""

    names: Names
    features: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Synthetic:
    """The synthetic world: `queries` x `docs_per_query` documents with `features` features."""

    seed: int
    queries: int
    docs_per_query: int
    features: int

    @property
    def blocks(self) -> int:
        return -(-self.queries // BLOCK)

    @property
    def max_label(self) -> int:
        return MAX_LABEL

    def block(self, number: int) -> WorldBlock:
        """Draw one block; the random stream depends only on the seed and the block number."""
        first = number * BLOCK
        count = min(BLOCK, self.queries - first)
        features, utility = self._draw(number, count)
        labels = np.searchsorted(self._thresholds(), utility).astype(np.int32)
        return WorldBlock(self._names(first, count), features, labels)

    def names(self) -> Names:
        return self._names(0, self.queries)

    def _names(self, first: int, count: int) -> Names:
        queries = _numbered("q", np.arange(first, first + count))
        rows = np.repeat(np.arange(count), self.docs_per_query)
        numbers = _numbered("d", np.tile(np.arange(self.docs_per_query), count))
        documents = pc.binary_join_element_wise(queries.take(pa.array(rows)), numbers, "")
        return Names(queries, documents, np.full(count, self.docs_per_query))

    def _draw(self, number: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        rng = stream(self.seed, "world", number)
        shape = (count, self.docs_per_query, self.features)
        query_effect = rng.standard_normal((count, 1, self.features), np.float32)
        x = 0.3 * query_effect + rng.standard_normal(shape, np.float32)
        x = x.reshape(-1, self.features)
        utility = 1.5 * x[:, 0] * x[:, 1] + 1.2 * np.abs(x[:, 2]) + np.sin(2 * x[:, 3])
        utility += (x[:, 4] > 0.5) + 0.8 * x[:, 5] + 0.5 * np.maximum(x[:, 6], x[:, 7])
        utility += 0.5 * rng.standard_normal(x.shape[0], np.float32)
        return x, utility

    def _thresholds(self) -> np.ndarray:
        """Return the utility thresholds between grades: quantiles of the first block."""
        _, utility = self._draw(0, min(BLOCK, self.queries))
        return np.quantile(utility, LABEL_QUANTILES)


@dataclass(frozen=True)
class Judged:
    """A world read from LETOR files, in one block."""

    documents: JudgedDocuments

    @property
    def blocks(self) -> int:
        return 1

    @property
    def max_label(self) -> int:
        """The highest grade in the files, at least 1."""
        return max(int(self.documents.labels.max()), 1)

    def block(self, number: int) -> WorldBlock:
        """Return all documents, grouped by query."""
        order = self._order()
        documents = self.documents
        return WorldBlock(self.names(), documents.features[order], documents.labels[order])

    def names(self) -> Names:
        """Return the queries, sorted, each with its documents in file order."""
        queries, counts = np.unique(np.array(self.documents.query_ids), return_counts=True)
        documents = pa.array(self.documents.doc_ids).take(pa.array(self._order()))
        return Names(pa.array(queries), documents, counts)

    def _order(self) -> np.ndarray:
        return np.argsort(np.array(self.documents.query_ids), kind="stable")


World = Synthetic | Judged


@dataclass(frozen=True)
class LinearRanker:
    """The production ranker: ridge regression of the labels on standardised features."""

    centre: np.ndarray
    scale: np.ndarray
    weights: np.ndarray

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Return one score (float32) per row."""
        return ((features - self.centre) / self.scale @ self.weights).astype(np.float32)


def weak_ranker(block: WorldBlock, queries: int) -> LinearRanker:
    """Fit a ranker on only a block's first queries, so that trained models can outperform it."""
    rows = int(block.names.doc_counts[:queries].sum())
    x, y = block.features[:rows].astype(float), block.labels[:rows].astype(float)
    centre, scale = x.mean(axis=0), x.std(axis=0)
    scale[scale == 0] = 1.0
    z = (x - centre) / scale
    ridge = z.T @ z + len(z) * 0.1 * np.eye(z.shape[1])
    return LinearRanker(centre, scale, np.linalg.solve(ridge, z.T @ (y - y.mean())))


def _numbered(prefix: str, numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(
        pa.scalar(prefix), pc.cast(pa.array(numbers), pa.string()), ""
    )
