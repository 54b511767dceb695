"""The Arrow schemas of partial sums, which travel between tasks and driver and are not stored."""

from __future__ import annotations

import pyarrow as pa

# One row per (segment, bucket, query, document, day, position): its impressions and clicks. day:
# the number of the date in the window, from 0.
exposures_schema = pa.schema(
    [
        pa.field("segment", pa.string()),
        pa.field("bucket", pa.string()),
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("day", pa.int32(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("clicks", pa.int64(), nullable=False),
        pa.field("impressions", pa.int64(), nullable=False),
    ]
)

# Intervention harvesting from natural rank changes. One row per (segment, block, k, l), k != l, for
# the documents of the block's queries that were shown at both positions. Queries are hashed into
# blocks; standard errors are a jackknife over blocks.
#   clicks, impressions, documents  weighted clicks and impressions at k, and their number
#   within, between      weighted clicks at k, compared with l on the same day and on other days
#   steep                weighted clicks at k times the steepness of the query (document_pairs)
HARVEST_SUMS = ("clicks", "impressions", "documents", "within", "between", "steep")
_HARVEST_KEY = [
    pa.field("segment", pa.string()),
    pa.field("block", pa.int32(), nullable=False),
    pa.field("k", pa.int32(), nullable=False),
    pa.field("l", pa.int32(), nullable=False),
]
harvest_schema = pa.schema(
    [*_HARVEST_KEY, *[pa.field(name, pa.float64(), nullable=False) for name in HARVEST_SUMS]]
)
# The same as integers: a sum is units / 2^20 + rest / 2^56.
harvest_units_schema = pa.schema(
    [
        *_HARVEST_KEY,
        *[
            pa.field(f"{name}_{part}", pa.int64(), nullable=False)
            for name in HARVEST_SUMS
            for part in ("units", "rest")
        ],
    ]
)

# One row per (segment, bucket, block) of a single-swap bucket: weighted sums of x^p and x^p y over
# the documents that were shown at both of its positions, where x is a document's click rate at the
# first position and y that at the second.
moments_schema = pa.schema(
    [
        pa.field("segment", pa.string()),
        pa.field("bucket", pa.string(), nullable=False),
        pa.field("block", pa.int32(), nullable=False),
        pa.field("documents", pa.int64(), nullable=False),
        *[pa.field(f"x{p}", pa.float64(), nullable=False) for p in range(5)],
        *[pa.field(f"x{p}y", pa.float64(), nullable=False) for p in range(3)],
    ]
)
