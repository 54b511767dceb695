"""The largest difference of each export format from LightGBM's scores, on a trained model.

    python -m tests.bench.exports [--model FILE.txt] [--rows N] [--trees N] [--quick]

The engines' evaluators are those of tests/support/engines.py: float32 loops after the engines'
sources, and onnxruntime itself. Without --model, a ranker is trained on simulated clicks, on
features with zeros, tiny values and missing values. Rows are drawn like the training rows. Each
node adds rows at its threshold, just above and just below it. A third set has missing values.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from tests.support.edge_rows import edge_rows, splits_of
from tests.support.engines import SCORES
from ulr import Ranker
from ulr.models.export.formats import FILES, export_model
from ulr.models.text import finished_model

WIDTH, DOCUMENTS = 25, 10
WRONG = 1e-4  # a larger difference is a row on the wrong side of a split
MISSING = 1000  # rows with missing values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a LightGBM text file (default: train one)")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--trees", type=int, default=60)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, 20 trees")
    args = parser.parse_args()
    rows, trees = (args.rows // 10, 20) if args.quick else (args.rows, args.trees)
    text = Path(args.model).read_text() if args.model else train(trees)
    booster = lgb.Booster(model_str=text)
    nodes = splits_of(text)
    drawn = features(rows, booster.num_feature(), seed=1)
    edges = edge_rows(drawn, nodes, special=False)
    missing = drawn[: min(MISSING, rows)].copy()
    missing[np.random.default_rng(2).random(missing.shape) < 0.3] = np.nan
    sets = {"rows": drawn, "thresholds": edges[:-200], "missing": missing}
    title = f"{booster.num_trees()} trees, {len(nodes)} nodes, {booster.num_feature()} features"
    table = Table("format", *(f"{name} ({len(x):,})" for name, x in sets.items()), "wrong side",
                  title=f"largest difference from LightGBM: {title}")  # fmt: skip
    for form in FILES:
        table.add_row(form, *compare(text, form, sets))
    Console().print(table)


def compare(text: str, form: str, sets: dict[str, np.ndarray]) -> list[str]:
    """Return the largest difference on each set, and the number of rows on the wrong side."""
    booster = lgb.Booster(model_str=text)
    content, wrong, cells = export_model(text, form, "ranker"), 0, []
    for x in sets.values():
        error = np.abs(SCORES[form](content, x, booster.feature_name()) - booster.predict(x))
        wrong += int((error > WRONG).sum())
        cells.append(f"{error.max():.1e}")
    return [*cells, str(wrong)]


def train(trees: int) -> str:
    """Return the text of a ranker trained on clicks of pages of documents in random order."""
    x = features(20_000, WIDTH, seed=0)
    rng = np.random.default_rng(3)
    relevance = np.nan_to_num(x[:, 0] / 30 + x[:, 1] * 1e7 + (x[:, 2] == 0) + np.isnan(x[:, 3]))
    position = np.tile(np.arange(1, DOCUMENTS + 1), len(x) // DOCUMENTS)
    clicked = rng.random(len(x)) < 1 / (1 + np.exp(2 - relevance)) / position
    ranker = Ranker("naive", n_estimators=trees, num_leaves=31, early_stopping_rounds=0)
    names = [f"feature_{k}" for k in range(x.shape[1])]
    ranker.fit(pd.DataFrame(x, columns=names), clicked, position=position,
               group=np.full(len(x) // DOCUMENTS, DOCUMENTS))  # fmt: skip
    return finished_model(ranker.booster_.model_to_string(num_iteration=ranker.best_iteration_))


def features(rows: int, width: int, *, seed: int) -> np.ndarray:
    """Return features (float32) of several scales, with zeros and missing values."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, width)).astype(np.float32)
    x[:, 0] = np.abs(x[:, 0]) * 30
    if width > 2:
        x[:, 1] *= np.float32(1e-7)  # below Solr's slack
        x[rng.random(rows) < 0.4, 2] = 0
    x[:, width // 2 :][rng.random((rows, width - width // 2)) < 0.2] = np.nan
    if width > 3:
        x[rng.random(rows) < 0.2, 3] = np.nan
    return x


if __name__ == "__main__":
    main()
