"""The repetition of the papers' tables and figures, at a tiny size."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.bench.papers import oosterhuis
from tests.bench.papers.cells import METRICS, Outcome, Results, Task, run_cell
from tests.bench.papers.claims import Claim, difference
from tests.bench.papers.figures import metric_figure, sweep
from tests.bench.papers.kurennoy import gap_closed
from tests.bench.papers.methods import (
    DLA,
    IDEAL,
    IPS,
    IPS_ALL,
    IPS_IRRELEVANT,
    LABELS,
    NAIVE,
    PRODUCTION,
    PRS,
    Bench,
    Method,
    available,
    linear,
    unbiased_lambdamart,
)
from tests.bench.papers.page import Paper, Table, index
from tests.bench.papers.published import HU_TABLE_2, KURENNOY, PRS_TABLE_1
from tests.bench.papers.worlds import Scale, World, draw_pages

TINY = Scale(queries=60, trees=5, seeds=1)
WORLD = World(binary=True, noise=0.1, cut=10, clicks=400)


def test_a_cell_trains_every_method_and_evaluates_the_test_queries():
    methods = (NAIVE, replace(PRS, propensities="shuffle"), DLA, LABELS, PRODUCTION, IDEAL,
               linear(PRS), linear(LABELS), Method("SVM", "ips-all", "svm"),
               replace(IPS, name="EM", propensities="regression_em"),
               unbiased_lambdamart(0), unbiased_lambdamart(1, given=True))  # fmt: skip
    scale = replace(TINY, queries=300, trees=30)
    outcomes = run_cell(Task(scale, replace(WORLD, clicks=2000), 1, methods))
    assert list(outcomes) == [method.name for method in methods]
    for outcome in outcomes.values():
        assert outcome.values.shape == (100, len(METRICS))
    assert np.nanmin(outcomes[IDEAL.name].values) == 1.0
    assert np.nanmean(outcomes[LABELS.name].values) > np.nanmean(outcomes[PRODUCTION.name].values)
    np.testing.assert_array_equal(outcomes[PRODUCTION.name].moved, np.arange(1, 11))
    t_plus, _ = outcomes["Unbiased LambdaMART, p = 1"].biases
    np.testing.assert_allclose(t_plus, 1 / np.arange(1, 11))


@pytest.mark.parametrize("clicks", [100, 2000])
def test_a_log_has_about_its_budget_of_clicks(clicks):
    pages = draw_pages(TINY, replace(WORLD, clicks=clicks), 1)
    assert pages.clicks.sum() == pytest.approx(clicks, abs=6 * np.sqrt(clicks))
    assert set(pages.corpus.labels.tolist()) == {0, 1}


def test_a_letor_file_takes_the_place_of_the_built_in_corpus(tmp_path):
    rng = np.random.default_rng(0)
    lines = [
        f"{rng.integers(5)} qid:{query} " + " ".join(f"{i}:{rng.random():.3f}" for i in range(1, 6))
        for query in range(1, 41)
        for _ in range(6)
    ]
    (tmp_path / "set1.train.txt").write_text("\n".join(lines) + "\n")
    scale = replace(TINY, letor=(str(tmp_path / "set1.train.txt"),))
    outcomes = run_cell(Task(scale, replace(WORLD, cut=6), 1, (NAIVE, LABELS)))
    assert outcomes[LABELS.name].values.shape == (10, len(METRICS))


def test_pairs_against_irrelevant_documents_equal_a_plain_loop():
    pages = draw_pages(TINY, replace(WORLD, noise=0.0), 1)
    bench = Bench(pages, WORLD, 1, 5)
    every, only = bench.pairs(IPS_ALL), bench.pairs(IPS_IRRELEVANT)
    lists = every.pairs
    for query in range(lists.query_rows.size - 1):
        first = lists.query_rows[query]
        for group in range(*lists.query_groups[query : query + 2]):
            rows = first + lists.doc_row[slice(*lists.group_docs[group : group + 2])]
            for pair in range(*lists.group_pairs[group : group + 2]):
                low = [every.labels[rows[place[pair]]] for place in (lists.j, lists.i)]
                expected = [u[pair] * (y == 0) for u, y in
                            zip((lists.u_ij, lists.u_ji), low, strict=True)]  # fmt: skip
                assert [only.pairs.u_ij[pair], only.pairs.u_ji[pair]] == expected
    assert (only.pairs.u_ij != lists.u_ij).any()


def results_of(**means: list[float]) -> Results:
    """Return results in which method `name` has these values of all metrics, by query."""
    results = Results()
    for name, values in means.items():
        outcome = Outcome(np.tile(np.array(values)[:, None], len(METRICS)), np.zeros(10), 0.0)
        results.outcomes[WORLD, name] = [outcome]
    return results


def test_a_claim_agrees_differs_or_is_open():
    rng = np.random.default_rng(1)
    base = rng.random(200)
    noise = rng.normal(0, 0.1, 200)
    results = results_of(low=base, high=base + 0.05 + noise, same=base + noise - noise.mean())
    low, high, same = (Method(name) for name in ("low", "high", "same"))
    verdict = {
        pair: Claim("", difference(results, WORLD, *pair)).verdict
        for pair in ((high, low), (low, high), (same, low))
    }
    assert list(verdict.values()) == ["agrees", "differs", "open"]
    own = difference(results, WORLD, high, low)
    assert own.error == pytest.approx(np.std(0.05 + noise, ddof=1) / np.sqrt(200))


def test_published_numbers_are_complete_and_give_the_known_fractions_of_the_gap():
    """The fractions of docs/methods.md section 10."""
    closed: dict[tuple[str, str], list[str]] = {}
    for (browsing, _), rows in KURENNOY.items():
        assert {len(values) for values in rows.values()} == {len(METRICS)}
        base = rows["p0"][0]
        means = {k: base * (1 + v[0] / 100) for k, v in rows.items()} | {"p0": base}
        for key in ("robust", "p0", "p2"):
            closed.setdefault((browsing, key), []).append(gap_closed(means, key))
    assert closed["continuous", "robust"] == ["73%", "82%", "76%"]
    assert closed["continuous", "p2"] == ["78%", "75%", "67%"]
    assert closed["continuous", "p0"] == ["63%", "22%", "-2%"]
    assert closed["independent", "robust"] == ["62%", "71%", "77%"]
    assert closed["independent", "p2"] == ["75%", "80%", "79%"]
    assert [values[-1] for values in PRS_TABLE_1.values()] == [0.5978, 0.6009, 0.6173, 0.6264]
    assert sum(len(rows) for rows in HU_TABLE_2.values()) == 14


def test_a_small_gap_has_no_fraction():
    assert gap_closed({"naive": 0.5, "labels": 0.54, "robust": 0.53}, "robust") == "–"


def test_a_method_without_a_ranker_is_left_out():
    assert available([NAIVE, Method("other", ranker="neural")]) == [NAIVE]
    results = results_of(Naive=[0.5, 0.6])
    series = sweep([NAIVE, Method("other")], [WORLD])
    figure = metric_figure(results, series, ["x"], file="f.svg", title="t", x_name="x")
    assert [line.name for line in figure.chart.lines] == ["Naive"]


def test_pages_link_to_figures_that_exist(tmp_path):
    paper = oosterhuis.run(TINY, 1)
    paper.write(tmp_path)
    (tmp_path / "README.md").write_text(index([paper], "This run: tiny."))
    text = (tmp_path / "oosterhuis.md").read_text()
    assert {claim.verdict for claim in paper.claims} == {"agrees"}
    assert [(tmp_path / name).exists() for name in re.findall(r"\]\(([\w-]+\.svg)\)", text)] == [
        True
    ]
    assert "| [Oosterhuis 2022, figure 1](oosterhuis.md) | 3 | 0 | 0 |" in index([paper], "")


def test_what_differs_is_listed_with_its_reason():
    claim = Claim("a above b", difference(results_of(a=[0.1, 0.2, 0.1], b=[0.5, 0.7, 0.6]), WORLD,
                                          Method("a"), Method("b")), "Because.")  # fmt: skip
    paper = Paper("x", "X", "", [Table("t", ["a"], [["1"]])], [claim])
    text = index([paper, replace(paper, claims=[replace(claim, extra=True)])], "")
    assert "**X.** Because.\n\n- a above b: -0.4667" in text
    assert re.findall(r"\| \[X\].*", text) == [
        "| [X](x.md) | 0 | 1 | 0 |",
        "| [X](x.md) | 0 | 0 | 0 |",
    ]
