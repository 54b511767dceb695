"""What the registry is told of a model, from a warehouse that has moved on or has not."""

import pyarrow as pa
import pytest

from ulr.registry.promotion import SAMPLE_SIZE
from ulr.registry.submission import gather_submission
from ulr.warehouse.schema import metrics_schema, pairs_schema
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse

ROW = {"stage": "pairs", "subject": "joint", "name": "effective_sample_size", "value": 70.0}


def publish(warehouse, table, partition, identity, content, **origin):
    with warehouse.writing(table, partition, identity, **origin) as draft:
        for name, rows in content.items():
            if isinstance(rows, pa.Table):
                Storage(draft.url).write_table(rows, name)
            else:
                Storage(draft.url).write_text(rows, name)
        draft.publish({"trees": 1})


@pytest.mark.parametrize(("trained_on", "known"), [("now", True), ("before", False)])
def test_pairs_made_since_say_nothing_of_the_model(tmp_path, trained_on, known):
    """Their effective sample size let a model through the gate that had been trained on others."""
    warehouse = Warehouse(str(tmp_path))
    pairs = {"part-00000.parquet": pairs_schema.empty_table()}
    publish(warehouse, "pairs", "method=joint", "now", pairs,
            inputs={"groups": {"dt=2026-01-03": "x"}})  # fmt: skip
    health = {"part-00000.parquet": pa.Table.from_pylist([ROW], schema=metrics_schema)}
    publish(warehouse, "metrics", "stage=pairs-method=joint", "now", health)
    model = {"model.txt": "tree", "record.json": "{}"}
    publish(warehouse, "models", "method=joint", "m", model, inputs={"pairs": trained_on})
    found = gather_submission(warehouse, "joint", settings={}, totals=None, name="joint")
    assert found.metrics.get(SAMPLE_SIZE) == (70.0 if known else None)
    assert found.tags["ulr.window"] == ("2026-01-03..2026-01-03" if known else "unknown")
