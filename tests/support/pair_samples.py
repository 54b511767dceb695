"""Small pair tables for tests, and the way to take one apart for the oracle."""

from __future__ import annotations

import numpy as np

from ulr.kernels.layout import Histograms, PairLists, Patterns, Ragged, WeightedPairs
from ulr.kernels.pair_runs import PairRuns
from ulr.propensity.examination import Examination


def independent_propensities(theta: np.ndarray) -> Examination:
    """psi = theta_k theta_l."""
    psi = np.outer(theta, theta)
    np.fill_diagonal(psi, theta)
    return Examination(theta, psi)


def random_pairs(rng, *, queries=6, max_docs=12, max_groups=3, signed=True, share=0.6):
    """Queries whose groups share rows, with random weights on a random share of the pairs."""
    rows, groups, docs, pairs = [0], [0], [0], [0]
    doc_row, position, i, j, u_ij, u_ji = [], [], [], [], [], []
    for _ in range(queries):
        size = int(rng.integers(1, max_docs + 1))
        rows.append(rows[-1] + size)
        for _ in range(int(rng.integers(1, max_groups + 1))):
            n = int(rng.integers(1, size + 1))
            doc_row += list(rng.permutation(size)[:n])
            position += range(1, n + 1)
            docs.append(len(doc_row))
            for a in range(n):
                for b in range(a + 1, n):
                    if rng.random() < share:
                        i.append(a)
                        j.append(b)
                        low = -2 if signed else 0
                        u_ij.append(rng.uniform(low, 5))
                        u_ji.append(rng.uniform(low, 5))
            pairs.append(len(i))
        groups.append(len(docs) - 1)
    ints = [np.array(x, np.int64) for x in (rows, groups, docs, pairs)]
    small = [np.array(x, np.int32) for x in (doc_row, position, i, j)]
    weights = np.array(u_ij, np.float32), np.array(u_ji, np.float32)
    clicks = rng.poisson(3.0, len(doc_row)).astype(np.float32)
    return PairLists(*ints, *small, *weights, clicks)


def one_list_per_query(
    docs: int, pairs: WeightedPairs, clicks: np.ndarray | None = None
) -> PairLists:
    """Queries of one list each, all of `docs` documents, shown in the order of their rows."""
    queries = pairs.offsets.size - 1
    lists = Ragged.from_lengths(np.full(queries, docs))
    place = lists.within().astype(np.int32)
    groups = np.arange(queries + 1)
    clicks = np.zeros(place.size, np.float32) if clicks is None else clicks
    return PairLists(
        lists.offsets, groups, lists.offsets, pairs.offsets, place, place + 1, *pairs[1:], clicks
    )


def group_lists(pairs: PairLists):
    """Per group: absolute rows, positions, and pairs (i, j, u_ij, u_ji) as plain lists."""
    for q in range(pairs.queries):
        for g in range(pairs.query_groups[q], pairs.query_groups[q + 1]):
            docs = slice(pairs.group_docs[g], pairs.group_docs[g + 1])
            span = slice(pairs.group_pairs[g], pairs.group_pairs[g + 1])
            rows = (pairs.query_rows[q] + pairs.doc_row[docs]).tolist()
            columns = (pairs.i, pairs.j, pairs.u_ij, pairs.u_ji)
            listed = list(zip(*(c[span].tolist() for c in columns), strict=True))
            yield rows, pairs.position[docs].tolist(), listed


def run_lists(runs: PairRuns):
    """Per group: the weights (u_ij, u_ji) of each pair (i, j) of indices in the list, i < j."""
    for group, lo in enumerate(runs.group_docs[:-1]):
        weights = {}
        for run in range(runs.group_runs[group], runs.group_runs[group + 1]):
            start, end = runs.run_pairs[run], runs.run_pairs[run + 1]
            a = int(runs.doc_index[lo + runs.document[run]])
            for p in range(start, end):
                b = int(runs.doc_index[lo + runs.partner[run] + p - start])
                u = runs.u_ij[p], runs.u_ji[p]
                assert (min(a, b), max(a, b)) not in weights
                weights[min(a, b), max(a, b)] = u if a < b else u[::-1]
        yield weights


def histograms(groups):
    """groups: list of (documents, {pattern as a tuple of bits: sessions})."""
    docs, word_at, words, count_at, counts = [0], [0], [], [0], []
    for n, patterns in groups:
        for bits, count in patterns.items():
            for start in range(0, n, 64):
                value = sum(int(b) << p for p, b in enumerate(bits[start : start + 64]))
                words.append(value - (1 << 64) if value >> 63 else value)
            counts.append(count)
        docs.append(docs[-1] + n)
        word_at.append(len(words))
        count_at.append(len(counts))
    arrays = [np.array(x, np.int64) for x in (word_at, words, count_at, counts)]
    return Histograms(np.array(docs, np.int64), Patterns(*arrays))
