"""A reducer's part in bounded memory: the written rows do not depend on the memory limit."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.logs import page
from tests.support.strategies import as_batch
from ulr.clicklog.contract import check_pages
from ulr.groups import parts
from ulr.groups.histograms import fold_pages, merge, negate
from ulr.warehouse.storage import Storage


def tables(seed: int, count: int) -> list[pa.Table]:
    """Return tables in transit of 200 random pages each, with documents of 1 KB."""
    rng = random.Random(seed)
    result = []
    for _ in range(count):
        pages = [page(n, rng) for n in range(200)]
        pages = [p | {"doc_ids": [d * 500 for d in p["doc_ids"]]} for p in pages]
        checked = check_pages(as_batch(pages))
        result.append(fold_pages(checked, checked.good, 50))
    return result


def write(folder, pieces: list[pa.Table]) -> tuple[dict, pa.Table]:
    part = parts.GroupsPart()
    for piece in pieces:
        part.add(piece)
    counts = part.write(Storage(str(folder)), "part.parquet")
    return dict(counts), pq.read_table(folder / "part.parquet")


@pytest.mark.parametrize("limit", [100_000, 1_000_000, 20_000_000])
def test_the_rows_do_not_depend_on_the_memory_limit(tmp_path, monkeypatch, limit):
    pieces = tables(1, 8)
    counts, expected = write(tmp_path / "whole", pieces)
    monkeypatch.setattr(parts, "PART_BYTES", limit)
    limited, table = write(tmp_path / "limited", pieces[::-1])
    assert table.equals(expected)
    assert {**limited, "groups_bytes": 0} == {**counts, "groups_bytes": 0}
    assert counts["queries"] == len(set(expected["query_id"].to_pylist()))


def test_no_merged_table_has_much_more_than_the_limit(tmp_path, monkeypatch):
    # The limit stands for the 2 GiB that 32-bit offsets reach.
    pieces = tables(2, 12)
    limit = 2 * pieces[0].nbytes
    merged = []

    def measured(pieces: list[pa.Table]) -> pa.Table:
        merged.append(sum(piece.nbytes for piece in pieces))
        return merge(pieces)

    monkeypatch.setattr(parts, "PART_BYTES", limit)
    monkeypatch.setattr(parts, "merge", measured)
    _, table = write(tmp_path, pieces)
    assert table.nbytes > 3 * limit
    assert max(merged) < 2 * limit


def test_subtracting_pages_leaves_the_groups_of_the_others(tmp_path):
    first, second, third = tables(3, 3)
    _, expected = write(tmp_path / "two", [first, third])
    _, table = write(tmp_path / "three", [first, second, third, negate(second)])
    assert table.equals(expected)


def test_a_part_without_groups_writes_no_file(tmp_path):
    (only,) = tables(4, 1)
    part = parts.GroupsPart()
    part.add(only)
    part.add(negate(only))
    assert not part.write(Storage(str(tmp_path)), "part.parquet")
    assert not list(tmp_path.iterdir())
