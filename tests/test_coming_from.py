"""The snippets with `ulr` in docs/coming-from.md run, and the parameters that it names exist."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from tests.support.sessions import session_rows
from ulr import Ranker
from ulr.ml import UnbiasedLambdaMART

PAGE = (Path(__file__).parent.parent / "docs" / "coming-from.md").read_text()
SNIPPETS = [code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "ulr" in code]
ROWS = session_rows(queries=300, sessions=10)


def names():
    """Return the variables that the page supposes."""
    import ulr

    session = np.repeat(np.arange(ROWS.group.size), ROWS.group)
    return {
        "ulr": ulr, "x": ROWS.x, "clicks": ROWS.clicks, "group": ROWS.group,
        "position": ROWS.position, "session": session, "theta": ROWS.theta,
    }  # fmt: skip


def run(snippet, **more):
    variables = names() | more
    exec(compile(snippet, "coming-from.md", "exec"), variables)
    return variables


def test_every_library_has_a_snippet_and_its_counterpart():
    every = re.findall(r"```python\n", PAGE)
    assert len(every) == 2 * len(SNIPPETS) == 6


@pytest.mark.parametrize("snippet", SNIPPETS[:2], ids=["xgboost", "lightgbm"])
def test_the_snippets_without_spark_train_a_model_of_relevance(snippet):
    ranker = run(snippet)["ranker"]
    assert ranker.booster_.num_trees() > 0
    scores = ranker.predict(ROWS.x)
    assert np.corrcoef(scores[ROWS.position == 1], ROWS.clicks[ROWS.position == 1])[0, 1] > 0.1


def test_the_learned_biases_are_those_that_the_page_names():
    biases = run(SNIPPETS[0])["ranker"].biases_
    assert set(biases) == {"t_plus", "t_minus"}


def test_the_snippet_of_the_estimator_scores_what_was_shown(spark):
    columns = zip(
        np.repeat(np.arange(ROWS.group.size), ROWS.group).tolist(), ROWS.position.tolist(),
        ROWS.clicks.tolist(), ROWS.x.tolist(), strict=True,
    )  # fmt: skip
    schema = "session long, position int, click int, features array<double>"
    shown = spark.createDataFrame(list(columns), schema)
    snippet = SNIPPETS[2].replace("num_iterations=100", "num_iterations=5")
    assert snippet != SNIPPETS[2]
    scored = run(snippet, shown=shown)["scored"]
    assert "prediction" in scored.columns
    assert scored.count() == len(ROWS.x)


def test_parameters_that_the_tables_name_exist():
    keywords = set(re.findall(r"`(\w+)=", " ".join(re.findall(r"\| ([^|]*) \|[^|]*\|\n", PAGE))))
    known = set(inspect.signature(Ranker.__init__).parameters)
    known |= set(inspect.signature(Ranker.fit).parameters)
    known |= {param.name for param in UnbiasedLambdaMART().params}
    assert keywords - known == set()
    assert len(keywords) >= 5
