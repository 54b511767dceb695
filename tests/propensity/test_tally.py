from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.session_groups import group
from ulr.propensity.tally import exposure_batch
from ulr.warehouse.schema import groups_schema


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_exposures_equal_a_loop_over_the_sessions(data):
    groups = []
    for number in range(data.draw(st.integers(1, 4))):
        length = data.draw(st.integers(1, 70))
        pages = st.lists(st.integers(0, 1), min_size=length, max_size=length)
        groups.append((f"q{number}", data.draw(st.lists(pages, min_size=1, max_size=4))))
    rows = [group(sessions, query=q) for q, sessions in groups]
    batch = pa.RecordBatch.from_pylist(rows, schema=groups_schema)
    rows = exposure_batch(batch, 3, 66).to_pylist()
    expected = [
        (q, f"d{k}", 3, k + 1, sum(s[k] for s in sessions), len(sessions))
        for q, sessions in groups
        for k in range(min(len(sessions[0]), 66))
    ]
    names = ("query_id", "doc_id", "day", "position", "clicks", "impressions")
    assert [tuple(r[n] for n in names) for r in rows] == expected
