from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import propensity_loops as loops
from tests.support.session_groups import group
from ulr.engine.columns import hashes
from ulr.kernels.trust_moments import MOMENTS
from ulr.propensity.daily import moments as module
from ulr.propensity.daily.arms import ArmTally
from ulr.propensity.daily.documents import COUNTS, merge_documents, part_of
from ulr.propensity.daily.moments import DocumentFile, moment_table, sum_moments
from ulr.propensity.daily.tally import tally_file
from ulr.propensity.schema import moments_schema
from ulr.warehouse.schema import groups_schema

LOCAL = pafs.LocalFileSystem()
BLOCKS = 3
BUCKETS = (None, "1:2", "1:4", "1:70", "2:1", "2:3", "1,2:3,4")


def hash_of(*texts):
    """XXH64 of the last text as int64, seeded with the hashes of those before it."""
    seed = None
    for text in texts:
        seed = hashes(pa.array([text]), seed)
    return int(seed.view(np.int64)[0])


def random_rows(rng, count, queries=4, documents=5):
    rows = []
    for i in range(count):
        length = int(rng.integers(1, documents + 1))
        clicks = (rng.random((int(rng.integers(1, 6)), length)) < 0.4).astype(int).tolist()
        bucket = BUCKETS[rng.integers(len(BUCKETS))]
        row = group(clicks, query=f"q{rng.integers(queries)}", bucket=bucket,
                    segment=("a", None)[rng.integers(2)],
                    swapped=(None, True, False)[rng.integers(3)])  # fmt: skip
        row["doc_ids"] = [f"d{d}" for d in rng.permutation(documents)[:length]]
        row["ranking"] = i
        rows.append(row)
    return rows


def documents_of(folder, rows, row_group=7):
    """The documents of rows, by way of a file with several row groups."""
    path = str(folder / "groups.parquet")
    table = pa.Table.from_pylist(rows, schema=groups_schema)
    pq.write_table(table, path, row_group_size=row_group)
    return merge_documents(list(tally_file(LOCAL, path, ArmTally())))


def stored(folder, tables):
    """Files with one table each, in small row groups."""
    files = []
    for number, table in enumerate(tables):
        path = str(folder / f"{number}.parquet")
        pq.write_table(table, path, row_group_size=5)
        files.append(DocumentFile(path, 0, 1))
    return files


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_documents_equal_a_loop_over_the_pages(tmp_path_factory, seed):
    rows = random_rows(np.random.default_rng(seed), 30)
    table = documents_of(tmp_path_factory.mktemp("documents"), rows)
    expected = {
        (segment, bucket, hash_of(query), hash_of(query, document)): counts
        for (segment, bucket, query, document), counts in loops.document_counts(rows).items()
    }
    keys = ("segment", "bucket", "query", "document")
    got = {tuple(r[k] for k in keys): [r[c] for c in COUNTS] for r in table.to_pylist()}
    assert got == expected
    assert table.num_rows == len(expected)
    assert table["document"].to_pylist() == sorted(table["document"].to_pylist())


def test_pages_outside_buckets_1_k_have_no_documents(tmp_path):
    rows = [group([[1, 1, 1, 1]], bucket=name, swapped=True) for name in ("2:1", "2:3", "1,2:3,4")]
    assert documents_of(tmp_path, [*rows, group([[1, 1]])]).num_rows == 0


def test_a_large_file_is_merged_in_steps_with_equal_results(tmp_path, monkeypatch):
    rows = random_rows(np.random.default_rng(1), 200)
    once = documents_of(tmp_path, rows)
    monkeypatch.setattr("ulr.propensity.daily.tally.MERGE_ROWS", 20)
    monkeypatch.setattr("ulr.propensity.daily.tally.ROWS_PER_BATCH", 3)
    assert documents_of(tmp_path, rows) == once


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_moments_of_a_window_equal_a_loop_over_documents_to_the_last_bit(tmp_path_factory, seed):
    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("moments")
    days = [random_rows(rng, 60, queries=2) for _ in range(3)]
    files = stored(folder, [documents_of(folder, rows) for rows in days])
    table = moment_table([sum_moments(LOCAL, files, 0, 1, BLOCKS)])
    assert table.schema == moments_schema
    documents = loops.document_counts([row for rows in days for row in rows])
    expected = loops.trust_moments(documents, lambda query: hash_of(query) % BLOCKS)
    names = ("documents", *MOMENTS)
    got = {
        (r["segment"], r["bucket"], r["block"]): [r[n] for n in names] for r in table.to_pylist()
    }
    assert got == expected
    order = [(r["segment"] is None, r["segment"] or "", r["bucket"], r["block"])
             for r in table.to_pylist()]  # fmt: skip
    assert order == sorted(order)


@pytest.mark.parametrize("parts", [1, 2, 8])
def test_moments_are_the_same_for_any_number_of_parts_and_files(tmp_path, monkeypatch, parts):
    rng = np.random.default_rng(7)
    days = [documents_of(tmp_path, random_rows(rng, 200, queries=3)) for _ in range(3)]
    whole = moment_table([sum_moments(LOCAL, stored(tmp_path, days), 0, 1, BLOCKS)])
    assert whole.num_rows > 3
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 4)
    files = []
    for number, day in enumerate(days):
        part = part_of(day["document"].to_numpy(), parts)
        for p in np.unique(part).tolist():
            path = str(tmp_path / f"{number}-{p}.parquet")
            pq.write_table(day.filter(pa.array(part == p)), path, row_group_size=5)
            files.append(DocumentFile(path, p, parts))
    for tasks in (1, 2, 4, 16):
        sums = [sum_moments(LOCAL, files, i, tasks, BLOCKS) for i in range(tasks)]
        assert moment_table(sums) == whole


def test_ranges_cover_all_hashes_in_their_order():
    ends = np.array([-(2**63), -1, 0, 2**63 - 1])
    assert part_of(ends, 1).tolist() == [0, 0, 0, 0]
    assert part_of(ends, 2).tolist() == [0, 0, 1, 1]
    assert part_of(ends, 8).tolist() == [0, 3, 4, 7]
    file = DocumentFile("", 1, 2)
    assert [file.overlaps(i, 8) for i in range(8)] == [False] * 4 + [True] * 4
    assert DocumentFile("", 5, 8).overlaps(1, 2)
