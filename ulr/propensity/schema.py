"""The Arrow schemas of partial sums, which travel between tasks and driver and are not stored."""

from __future__ import annotations

import pyarrow as pa

# One row per (segment, bucket, query, document, position): its impressions and clicks.
exposures_schema = pa.schema(
    [
        pa.field("segment", pa.string()),
        pa.field("bucket", pa.string()),
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("clicks", pa.int64(), nullable=False),
        pa.field("impressions", pa.int64(), nullable=False),
    ]
)

# Intervention harvesting from natural rank changes. One row per (segment, block, k, l), k != l:
# weighted clicks and impressions at k of the documents that were shown at both positions, for the
# queries of the block. Queries are hashed into blocks; standard errors are a jackknife over blocks.
harvest_schema = pa.schema(
    [
        pa.field("segment", pa.string()),
        pa.field("block", pa.int32(), nullable=False),
        pa.field("k", pa.int32(), nullable=False),
        pa.field("l", pa.int32(), nullable=False),
        pa.field("clicks", pa.float64(), nullable=False),
        pa.field("impressions", pa.float64(), nullable=False),
        pa.field("documents", pa.int64(), nullable=False),
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
