"""`ulr.propensities`, `ulr.evaluate` and `ulr.judgments` on frames, against simulated truth."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.support.simulated_pages import simulated_pages
from ulr import evaluate, judgments, propensities
from ulr.errors import InvalidData, UserError

CHANGES = (
    "simulate.queries=120", "simulate.docs_per_query=8", "simulate.positions=5",
    "simulate.zipf=0.2", "simulate.days=2", "simulate.pages_per_day=40000", "simulate.features=8",
    "simulate.examination.model=continuous",
    "simulate.swaps=[{kind: single, fraction: 0.5}, {kind: pair, fraction: 0.4}]",
)  # fmt: skip
LOG = simulated_pages(*CHANGES)
SMALL = LOG.pages.slice(0, 6000)
SETTINGS = {"max_position": 5, "min_clicks": 20, "min_coclicks": 20}


class Capsule:
    """A frame of a library that has Arrow's C interface and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def frame(kind, table):
    if kind == "pandas":
        return table.to_pandas()
    if kind == "polars":
        return pytest.importorskip("polars").from_arrow(table)
    return Capsule(table) if kind == "capsule" else table


def arrow(result):
    if isinstance(result, pd.DataFrame):
        return pa.Table.from_pandas(result, preserve_index=False)
    return result if isinstance(result, pa.Table) else result.to_arrow()


@pytest.fixture(scope="module")
def estimates():
    return propensities(LOG.pages, **SETTINGS)


@pytest.fixture(scope="module")
def truth():
    """Return psi of the simulation by the two positions, theta where they are equal."""
    rows = LOG.examination.to_pylist()
    return {(row["k"], row["l"]): row["psi"] for row in rows if row["segment"] is None}


def test_theta_and_psi_are_recovered_with_intervals(estimates, truth):
    theta, psi = estimates.theta.to_pylist(), estimates.psi.to_pylist()
    assert [row["position"] for row in theta] == [1, 2, 3, 4, 5]
    assert len(psi) == 5 * 4 / 2
    inside = [row["lower"] <= truth[row["position"], row["position"]] <= row["upper"]
              for row in theta]  # fmt: skip
    assert sum(inside) >= 4
    for row in theta[1:]:
        assert row["lower"] < row["theta"] < row["upper"]
        true = truth[row["position"], row["position"]]
        assert abs(row["theta"] - true) < 4 * row["standard_error"]
    for row in psi:
        assert row["psi"] == pytest.approx(truth[row["k"], row["l"]], rel=0.25)
    assert "all traffic" in repr(estimates)
    assert estimates.diagnostics.num_rows > 0


@pytest.mark.parametrize("kind", ["pandas", "polars", "capsule"])
def test_frames_of_any_kind_have_the_same_results(kind):
    expected, found = (propensities(own, **SETTINGS) for own in (SMALL, frame(kind, SMALL)))
    assert found.theta_table.equals(expected.theta_table)
    assert found.psi_table.equals(expected.psi_table)
    kinds = {"pandas": pd.DataFrame, "capsule": pa.Table}
    if kind in kinds:
        assert isinstance(found.theta, kinds[kind])
    theirs, ours = (judgments(own, LOG_THETA) for own in (SMALL, frame(kind, SMALL)))
    assert arrow(ours).select(["rating", "clicks"]).to_pylist() == (
        theirs.select(["rating", "clicks"]).to_pylist()
    )


LOG_THETA = [1.0, 0.5, 1 / 3, 0.25, 0.2]


def impressions(pages):
    """Return one row per shown document, in random order."""
    rows = [
        {"session_id": page["session_id"], "query_id": page["query_id"], "doc_id": doc,
         "position": k, "clicked": click, "bucket": page["bucket"], "swapped": page["swapped"],
         "shown_at": page["shown_at"]}
        for page in pages.to_pylist()
        for k, (doc, click) in enumerate(zip(page["doc_ids"], page["clicks"], strict=True), 1)
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows)
    return table.take(pa.array(np.random.default_rng(1).permutation(len(rows))))


def test_an_impression_log_has_the_results_of_the_page_log():
    expected, found = (propensities(own, **SETTINGS) for own in (SMALL, impressions(SMALL)))
    assert found.theta_table.equals(expected.theta_table)


def test_segments_have_curves_of_their_own():
    segment = pa.array(np.where(np.arange(LOG.pages.num_rows) % 2, "a", "b"))
    at = LOG.pages.schema.get_field_index("segment")
    found = propensities(LOG.pages.set_column(at, "segment", segment), **SETTINGS)
    assert set(found.theta["segment"].to_pylist()) == {None, "a", "b"}
    _, by_segment = found.examination()
    assert set(by_segment) == {"a", "b"}


def test_the_value_of_a_ranking_is_that_of_its_relevance_within_the_interval(estimates):
    """A ranking by true relevance against the logged one: DCG of the documents on the page."""
    scores = LOG.relevance.append_column("score", LOG.relevance["relevance"]).select(
        ["query_id", "doc_id", "score"]
    )
    metrics = evaluate(LOG.pages, {"best": scores}, estimates)
    rows = {(row["subject"], row["against"], row["name"]): row for row in metrics.to_pylist()
            if row["segment"] is None and row["position"] is None}  # fmt: skip
    value = rows["best", None, "ips_dcg"]
    relevance = {(row["query_id"], row["doc_id"]): row["relevance"]
                 for row in LOG.relevance.to_pylist()}  # fmt: skip
    total = 0.0
    for page in LOG.pages.select(["query_id", "doc_ids"]).to_pylist():
        shown = sorted((relevance[page["query_id"], doc] for doc in page["doc_ids"]), reverse=True)
        total += sum(r / np.log2(1 + k) for k, r in enumerate(shown, 1))
    true = total / LOG.pages.num_rows
    assert value["lower"] < value["value"] < value["upper"]
    assert value["value"] == pytest.approx(true, abs=4 * value["standard_error"])
    assert rows["best", "logging", "snips_dcg"]["lower"] > 0


def test_judgments_rank_documents_by_relevance(estimates):
    table = judgments(LOG.pages, estimates).join(LOG.relevance, ["query_id", "doc_id"])
    rating, truth, lower, upper = (
        table[name].to_numpy() for name in ("rating", "relevance", "lower", "upper")
    )
    assert np.corrcoef(rating, truth)[0, 1] > 0.9
    below = truth < 1  # no Beta prior allows for 1
    covered = ((lower <= truth) & (truth <= upper))[below]
    assert covered.mean() > 0.88
    exact = judgments(LOG.pages, estimates.theta["theta"].to_pylist())
    wide, narrow = (pc.mean(pc.subtract(t["upper"], t["lower"])).as_py() for t in (table, exact))
    assert wide > narrow  # by the error of the propensities


def test_judgments_of_enough_impressions(estimates):
    every, some = (judgments(SMALL, estimates, min_impressions=n) for n in (1, 60))
    kept = every.filter(pc.greater_equal(every["impressions"], 60))
    assert 0 < some.num_rows < every.num_rows
    assert some.select(["query_id", "doc_id"]).equals(kept.select(["query_id", "doc_id"]))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: propensities(SMALL.drop_columns("clicks")), UserError, "no column clicks"),
        (lambda: propensities(SMALL, estimator="best"), UserError, "estimator = 'best'"),
        (lambda: propensities([1, 2]), UserError, "expected a pandas or polars DataFrame"),
        (lambda: judgments(SMALL, LOG_THETA, prior="flat"), UserError, "prior='flat'"),
        (lambda: judgments(SMALL, LOG_THETA, correction="no"), UserError, "correction='no'"),
        (lambda: judgments(SMALL, LOG_THETA, correction="affine"), UserError, "alpha and beta"),
        (lambda: judgments(SMALL.slice(0, 0), LOG_THETA), InvalidData, "no valid page"),
        (lambda: evaluate(SMALL, {"logging": LOG.relevance}, LOG_THETA), UserError, "use another"),
        (lambda: evaluate(SMALL, LOG.relevance, LOG_THETA), UserError, "no column score or rank"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(call, error, message):
    with pytest.raises(error, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_neither_spark_nor_mlflow_is_imported():
    code = """if True:
        import sys
        sys.modules.update(dict.fromkeys(("pyspark", "mlflow", "rich"), None))
        import numpy as np, pandas as pd, ulr
        rng = np.random.default_rng(1)
        size = 3000
        pages = pd.DataFrame({
            "query_id": rng.integers(0, 20, size).astype(str),
            "doc_ids": [["a", "b", "c"]] * size,
            "clicks": list(rng.random((size, 3)) < [0.5, 0.3, 0.2]),
        })
        theta = ulr.propensities(pages, estimator="given", theta=[1.0, 0.6, 0.4])
        assert len(ulr.judgments(pages, theta)) == 60
        scores = pd.DataFrame({"query_id": "3", "doc_id": ["a", "b", "c"], "score": [1, 3, 2]})
        assert len(ulr.evaluate(pages, scores, theta)) > 0
    """
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
