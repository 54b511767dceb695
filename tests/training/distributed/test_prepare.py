"""Workers read their own row groups; together they have every query exactly once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.clicked_pairs import as_table, clicked_data
from tests.support.rendezvous import on_threads
from tests.support.train_alone import train_alone
from ulr.engine.columns import hashes
from ulr.errors import UserError
from ulr.training.bins import in_sample
from ulr.training.distributed import pair_files, prepare
from ulr.training.distributed.pair_files import PairFiles, read_batches
from ulr.training.distributed.query_index import build_query_index, run_on_threads, sample_rows
from ulr.training.distributed.task import Job, train_worker
from ulr.training.plan import TrainPlan
from ulr.training.trained import make_ranker

SETTINGS = {"num_leaves": 7, "learning_rate": 0.2, "min_data_in_leaf": 1, "num_threads": 1,
            "min_sum_hessian_in_leaf": 3.0, "seed": 5, "bagging_fraction": 0.7,
            "bagging_freq": 1, "feature_fraction": 0.7}  # fmt: skip
PLAN = TrainPlan("unbiased-lambdamart", 8, SETTINGS, validation_fraction=0.3,
                 early_stopping_round=8, bias_regularization=1, checkpoint_every=3)  # fmt: skip
QUERIES = 130
DATA = clicked_data(QUERIES)


def write_files(folder, per_file=50, row_group=8, data=DATA):
    table, files = as_table(data), []
    for number, start in enumerate(range(0, table.num_rows, per_file)):
        files.append(str(folder / f"part-{number}.parquet"))
        pq.write_table(table.slice(start, per_file), files[-1], row_group_size=row_group)
    return PairFiles(str(folder), files, PLAN.validation_fraction)


def index_of(source):
    return build_query_index(run_on_threads(len(source.all), 2), source)


@pytest.mark.parametrize("row_group", [1, 8, 1000])
def test_the_index_has_every_query_in_the_order_of_the_files(tmp_path, row_group):
    index = index_of(write_files(tmp_path, row_group=row_group))
    assert index.rows.tolist() == np.diff(DATA.pairs.query_rows).tolist()
    per_query = np.diff(DATA.pairs.group_pairs[DATA.pairs.query_groups])
    assert index.pairs.tolist() == per_query.tolist()
    assert index.file.tolist() == (np.arange(QUERIES) // 50).tolist()
    assert index.group.tolist() == (np.arange(QUERIES) % 50 // row_group).tolist()
    assert index.max_position == 8
    assert index.width == 6
    assert 20 < index.validation.sum() < 60


def test_the_sample_is_that_of_one_table_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("ulr.training.bins.SAMPLE_ROWS", 300)
    source = write_files(tmp_path)
    index = index_of(source)
    sample = sample_rows(run_on_threads(3, 2), source, index)
    keys, sizes = hashes(DATA.query_ids), np.diff(DATA.pairs.query_rows)
    total = int(sizes[~index.validation].sum())
    chosen = in_sample(keys, sizes, total) & np.repeat(~index.validation, sizes)
    order = np.argsort(np.repeat(keys, sizes)[chosen], kind="stable")
    assert sample.tobytes() == DATA.features[chosen][order].tobytes()
    assert 200 < len(sample) < 400


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("row_group", [4, 1000])
def test_every_query_has_one_rank_and_only_its_row_groups_are_read(
    tmp_path, workers, row_group, monkeypatch
):
    source = write_files(tmp_path, row_group=row_group)
    placement = prepare.place(index_of(source), workers)
    reads, read_batches = [], pair_files.read_batches

    def counted(*args, **options):
        for group, table in read_batches(*args, **options):
            reads.append((args[1], group))
            yield group, table

    monkeypatch.setattr(prepare, "read_batches", counted)
    rows, names = Counter(), []
    for rank in range(len(placement.rows)):
        for kind, table in prepare.read_shards(source, placement, rank):
            rows[rank, kind] += len(table["labels"].combine_chunks().flatten())
            names += table["query_id"].to_pylist()
    assert sorted(names) == sorted(DATA.query_ids.to_pylist())
    expected = {(rank, kind): count for rank, counts in enumerate(placement.rows)
                for kind, count in zip(("train", "validation"), counts, strict=True)}  # fmt: skip
    assert rows == Counter(expected)
    if row_group == 4:  # 33 row groups: some are split to make ranks even
        assert len(reads) <= 33 + 3 * len(placement.rows) ** 2


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("row_group", [5, 1000])
def test_workers_train_the_model_of_one_process(tmp_path, workers, row_group):
    source = write_files(tmp_path, row_group=row_group)
    alone = train_alone(source, PLAN)
    learner = PLAN.learner()
    prepared = None
    if workers > 1:
        run = run_on_threads(len(source.all), 1)
        prepared = prepare.prepare(run, source, PLAN, learner, workers)
    job = Job(source, PLAN, learner, prepared, None, "token", 60.0)
    for state, report, size in on_threads(workers, lambda c: train_worker(c, job)):
        ranker = make_ranker(state, PLAN.early_stopping_metric)
        assert ranker.model_text() == alone.model_text()
        assert ranker.history == alone.history
        assert ranker.biases.t_minus.tobytes() == alone.biases.t_minus.tobytes()
        assert 0 < size.queries < QUERIES
        assert 0 < report.rows <= size.rows


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_train_the_linear_model_of_one_process_on_all_queries(tmp_path, workers):
    source = write_files(tmp_path, row_group=5)
    plan = replace(PLAN, method="joint", ranker="linear", feature_names=list("abcdef"))
    alone = train_alone(source, replace(plan, validation_fraction=0.0))
    learner, prepared = plan.learner(), None
    if workers > 1:
        run = run_on_threads(len(source.all), 1)
        prepared = prepare.prepare(run, source, plan, learner, workers)
    job = Job(source, plan, learner, prepared, None, "token", 60.0)
    results = on_threads(workers, lambda c: train_worker(c, job))
    assert sum(report.rows for _, report, _ in results) == DATA.pairs.rows
    for state, _, size in results:
        assert make_ranker(state, plan.early_stopping_metric).model_text() == alone.model_text()
        assert size.queries == QUERIES


def test_features_with_another_number_of_names_are_rejected_by_both_rankers(tmp_path):
    source = write_files(tmp_path)
    for ranker in ("trees", "linear"):
        plan = replace(PLAN, method="joint", ranker=ranker, feature_names=["a", "b"])
        with pytest.raises(UserError, match="has 2 names, but its rows have 6 features"):
            prepare.prepare(run_on_threads(3, 1), source, plan, plan.learner(), 2)


def test_a_file_that_changes_after_it_was_indexed_is_an_error(tmp_path):
    source = write_files(tmp_path, row_group=1000)
    placement = prepare.place(index_of(source), 2)
    more = as_table(clicked_data(60))
    pq.write_table(more, source.files[0])
    with pytest.raises(UserError, match="changed while it was read"):
        [list(prepare.read_shards(source, placement, rank)) for rank in range(2)]


def test_files_with_other_list_types_and_null_labels_are_read(tmp_path):
    table = as_table(replace(DATA, labels=np.zeros_like(DATA.labels)))
    unknown = pa.array([None] * DATA.pairs.rows, pa.int64())
    labels = pa.LargeListArray.from_arrays(DATA.pairs.query_rows, unknown)
    table = table.set_column(2, "labels", labels)
    file = str(tmp_path / "part-0.parquet")
    pq.write_table(table, file)
    index = index_of(PairFiles(str(tmp_path), [file]))
    assert index.rows.tolist() == np.diff(DATA.pairs.query_rows).tolist()


def test_a_table_of_another_version_is_named(tmp_path):
    source = replace(write_files(tmp_path, row_group=1000), validation_weights=("u_ij_old", "u_ji"))
    with pytest.raises(UserError, match=r"no column u_ij_old.*run `ulr pairs` again"):
        next(iter(read_batches(source, 0)))
