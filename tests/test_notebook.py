"""docs/notebook.ipynb runs in a fresh process, and finds the truth of its simulation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.all

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


@pytest.fixture(scope="module")
def left():
    """Return what the cells leave. pyspark and mlflow cannot be imported."""
    command = [sys.executable, "-m", "tests.support.run_notebook", str(NOTEBOOK)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_no_output_is_stored():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"]] == []
    assert len(cells) > len(code) > 5


def test_the_curve_has_intervals_that_contain_the_truth(left):
    curve = left["curve"]
    assert set(curve["source"]) == {"estimated"}
    for position in range(1, 6):  # position 1 is 1 by definition
        assert curve["lower"][position] < curve["theta"][position] < curve["upper"][position]
    inside = [
        low <= truth <= high
        for low, truth, high in zip(curve["lower"], curve["truth"], curve["upper"], strict=True)
    ]
    assert sum(inside) >= 5
    assert curve["theta"] == pytest.approx(curve["truth"], rel=0.1)


def test_ranker_is_better_on_golden_labels_than_lightgbm_on_clicks(left):
    quality = left["quality"]
    assert quality["Ranker"] > quality["LGBMRanker on clicks"] + 0.02


def test_the_evaluation_on_clicks_prefers_the_better_model_and_has_intervals(left):
    rows = {(r["subject"], r["against"], r["name"]): r for r in left["metrics"]
            if r["segment"] is None}  # fmt: skip
    difference = rows["Ranker", "LGBMRanker", "snips_dcg"]
    assert difference["value"] > 0
    assert difference["lower"] < difference["value"] < difference["upper"]
    assert rows["Ranker", "logging", "snips_dcg"]["lower"] > 0


def test_judgments_have_intervals(left):
    judged = left["judged"]
    for low, rating, high in zip(*(judged[n] for n in ("lower", "rating", "upper")), strict=True):
        assert 0 <= low < rating < high <= 1
