"""Submissions collected from a warehouse whose pairs were, or were not, replaced since."""

import lightgbm as lgb
import numpy as np
import pyarrow as pa
import pytest

from ulr.config.load import load_settings
from ulr.registry.submission import CLICKS, collect_submission
from ulr.warehouse.schema import metrics_schema, pairs_schema
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse

ROW = {"stage": "pairs", "subject": "joint", "name": "effective_clicks", "value": 70.0}


def publish(warehouse, table, partition, identity, content, **origin):
    with warehouse.writing(table, partition, identity, **origin) as draft:
        for name, rows in content.items():
            if isinstance(rows, pa.Table):
                Storage(draft.url).write_table(rows, name)
            else:
                Storage(draft.url).write_text(rows, name)
        draft.publish({"trees": 1})


@pytest.mark.parametrize(("trained_on", "known"), [("now", True), ("before", False)])
def test_window_and_sample_size_come_only_from_the_pairs_the_model_was_trained_on(
    tmp_path, trained_on, known
):
    """Otherwise the sample size of other pairs could let a model pass the gate."""
    warehouse = Warehouse(str(tmp_path))
    pairs = {"part-00000.parquet": pairs_schema.empty_table()}
    publish(warehouse, "pairs", "method=joint", "now", pairs,
            inputs={"groups": {"dt=2026-01-03": "x"}})  # fmt: skip
    health = {"part-00000.parquet": pa.Table.from_pylist([ROW], schema=metrics_schema)}
    publish(warehouse, "metrics", "stage=pairs-method=joint", "now", health)
    x = np.arange(40.0).reshape(-1, 1)
    booster = lgb.train({"verbose": -1}, lgb.Dataset(x, x[:, 0]), 1)
    model = {"model.txt": booster.model_to_string(), "record.json": "{}"}
    publish(warehouse, "models", "method=joint", "m", model, inputs={"pairs": trained_on})
    settings = load_settings(None, ["pairs.method=joint"])
    submission = collect_submission(warehouse, settings, totals=None)
    assert submission.metrics.get(CLICKS) == (70.0 if known else None)
    window = "2026-01-03..2026-01-03" if known else "unknown"
    assert submission.name == f"joint {window}"
    assert submission.tags.keys() == {
        f"ulr.{name}" for name in ("fingerprint", "version", "method", "window", "pairs", "groups")
    }
    assert submission.tags["ulr.window"] == window
    assert submission.params["pairs.method"] == "joint"
