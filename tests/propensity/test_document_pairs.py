from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.support import propensity_loops as loops
from ulr.propensity.document_pairs import REST, UNIT, pair_sums

FIELDS = ("document", "day", "position", "clicks", "impressions")
TYPE = pa.list_(pa.struct([pa.field(name, pa.int64()) for name in FIELDS]))


def random_query(rng, documents, *, days=4, positions=6):
    """document -> {(day, position): (clicks, impressions)}."""
    query = {}
    for d in rng.integers(-(2**60), 2**60, documents).tolist():
        where = query[d] = {}
        for place in rng.choice(days * positions, int(rng.integers(1, 9)), replace=False).tolist():
            n = int(rng.integers(1, 30))
            where[place // positions, place % positions + 1] = (int(rng.integers(n + 1)), n)
    return query


def batch_of(queries, segments, blocks):
    rows = [
        [dict(zip(FIELDS, (d, *at, *counts), strict=True))
         for d, where in query.items() for at, counts in where.items()]
        for query in queries
    ]  # fmt: skip
    return pa.record_batch(
        [pa.array(segments, pa.string()), pa.array(blocks, pa.int32()), pa.array(rows, TYPE)],
        names=["segment", "block", "seen"],
    )


def sums_of(batches, weight="pooled"):
    """(segment, block, k, l) -> sums by name."""
    table = {}
    for batch in pair_sums(iter(batches), weight=weight):
        for row in batch.to_pylist():
            entry = table.setdefault(tuple(row[n] for n in ("segment", "block", "k", "l")), {})
            for name, value in row.items():
                if name.endswith("_units"):
                    short = name.removesuffix("_units")
                    rest = row[f"{short}_rest"] / (UNIT * REST)
                    entry[short] = entry.get(short, 0.0) + value / UNIT + rest
    return table


def totals_of(query):
    return {
        d: {
            k: tuple(sum(x[i] for at, x in where.items() if at[1] == k) for i in (0, 1))
            for _, k in where
        }
        for d, where in query.items()
    }


@pytest.mark.parametrize("weight", ["pooled", "document"])
def test_sums_equal_loops_over_documents(weight):
    query = random_query(np.random.default_rng(0), 60)
    got = sums_of([batch_of([query], ["a"], [3])], weight)
    totals = totals_of(query)
    whole, by_day = loops.harvest_pairs(totals, weight), loops.day_pairs(query)
    assert {key[2:] for key in got} == set(whole) == set(by_day)
    for pair, (clicks, impressions) in whole.items():
        within, between = by_day[pair]
        expected = {
            "clicks": clicks, "impressions": impressions, "within": within, "between": between,
            "documents": sum(set(pair) <= set(where) for where in totals.values()),
            "steep": sum(
                loops.harvest_pairs({d: where}, weight)[pair][0] * loops.steepness(totals, d)
                for d, where in totals.items() if set(pair) <= set(where)
            ),
        }  # fmt: skip
        assert got[("a", 3, *pair)] == pytest.approx(expected)


def test_a_large_batch_is_summed_in_pieces(monkeypatch):
    rng = np.random.default_rng(2)
    batch = batch_of([random_query(rng, 5) for _ in range(30)], ["a"] * 30, [0] * 30)
    whole = sums_of([batch])
    monkeypatch.setattr("ulr.propensity.document_pairs.ENTRIES_AT_ONCE", 40)
    assert len(list(pair_sums(iter([batch]), weight="pooled"))) > 5
    pieces = sums_of([batch])
    assert set(pieces) == set(whole)
    assert all(pieces[key] == pytest.approx(sums, abs=1e-9) for key, sums in whole.items())


def test_segments_and_blocks_are_kept_apart_and_batches_add_up_in_any_order():
    rng = np.random.default_rng(1)
    queries = [random_query(rng, 5) for _ in range(30)]
    segments = [["a", "b", None][i % 3] for i in range(30)]
    blocks = [i % 2 for i in range(30)]
    whole = sums_of([batch_of(queries, segments, blocks)])
    assert {key[:2] for key in whole} == {(s, b) for s in ("a", "b", None) for b in (0, 1)}
    order = rng.permutation(30)
    parts = [
        batch_of(*([column[i] for i in part] for column in (queries, segments, blocks)))
        for part in (order[:11], order[11:])
    ]
    added = sums_of(parts)
    assert set(added) == set(whole)
    assert all(added[key] == pytest.approx(sums, abs=1e-9) for key, sums in whole.items())
    own = [q for q, s, b in zip(queries, segments, blocks, strict=True) if (s, b) == (None, 1)]
    documents = {(i, d): where for i, query in enumerate(own) for d, where in query.items()}
    for pair, (within, _) in loops.day_pairs(documents).items():
        assert whole[(None, 1, *pair)]["within"] == pytest.approx(within)
