"""Published pair files, read row group by row group. Arrow; no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from ulr.training.data import COLUMNS
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.schema import pairs_schema

BATCH_QUERIES = 1024  # some megabytes of features


@dataclass(frozen=True)
class PairFiles:
    """Parquet files of the pairs schema.

    The validation queries are those of `validation_files` or, if there are none, a sample of the
    queries, drawn by hashing their names.
    """

    url: str
    files: Sequence[str]
    validation_fraction: float = 0.0
    validation_files: Sequence[str] = ()

    @property
    def all(self) -> list[str]:
        """All files; the validation files are last."""
        return [*self.files, *self.validation_files]

    def sizes(self) -> list[int]:
        """Return the bytes of all files."""
        fs, _ = open_filesystem(self.url)
        return [info.size or 0 for info in fs.get_file_info(self.all)]


def read_batches(
    source: PairFiles,
    file: int,
    *,
    columns: Sequence[str] = COLUMNS,
    groups: Sequence[int] | None = None,
    threads: bool = False,
) -> Iterator[tuple[int, pa.Table]]:
    """Yield batches of consecutive queries and the row group of each batch.

    file: index in `source.all`. groups: row groups to read, all by default.
    """
    fs, _ = open_filesystem(source.url)
    schema = pa.schema([pairs_schema.field(name) for name in columns])
    with pq.ParquetFile(source.all[file], filesystem=fs, pre_buffer=True) as content:
        for group in range(content.num_row_groups) if groups is None else groups:
            batches = content.iter_batches(
                BATCH_QUERIES, row_groups=[group], columns=list(columns), use_threads=threads
            )
            for batch in batches:
                yield group, pa.Table.from_batches([batch]).select(list(columns)).cast(schema)
