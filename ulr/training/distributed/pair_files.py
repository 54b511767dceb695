"""Published pair files, read row group by row group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq

from ulr.errors import UserError
from ulr.training.data import COLUMNS, WEIGHTS
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.schema import pairs_schema, with_weights

BATCH_QUERIES = 1024  # some megabytes of features


@dataclass(frozen=True)
class PairFiles:
    """Parquet files of the pairs schema.

    The validation queries are those of `validation_files` or, if there are none, a sample of the
    queries, drawn by hashing their names. weights: the columns of every weighting to train on;
    validation_weights: those of the validation loss.
    """

    url: str
    files: Sequence[str]
    validation_fraction: float = 0.0
    validation_files: Sequence[str] = ()
    weights: Sequence[tuple[str, str]] = (WEIGHTS,)
    validation_weights: tuple[str, str] = WEIGHTS

    @property
    def all(self) -> list[str]:
        """All files; the validation files are last."""
        return [*self.files, *self.validation_files]

    @property
    def columns(self) -> list[str]:
        """The columns that training reads."""
        return list(dict.fromkeys([*COLUMNS, *chain(*self.weights), *self.validation_weights]))

    def sizes(self) -> list[int]:
        """Return the bytes of all files."""
        fs, _ = open_filesystem(self.url)
        return [info.size or 0 for info in fs.get_file_info(self.all)]


def read_batches(
    source: PairFiles,
    file: int,
    *,
    columns: Sequence[str] | None = None,
    groups: Sequence[int] | None = None,
    threads: bool = False,
) -> Iterator[tuple[int, pa.Table]]:
    """Yield batches of consecutive queries and the row group of each batch.

    file: index in `source.all`. columns: by default those that training reads. groups: row groups
    to read, all by default.
    """
    fs, _ = open_filesystem(source.url)
    columns = columns or source.columns
    every = with_weights(name for name in columns if name not in pairs_schema.names)
    schema = pa.schema([every.field(name) for name in columns])
    with pq.ParquetFile(source.all[file], filesystem=fs, pre_buffer=True) as content:
        missing = set(columns) - set(content.schema_arrow.names)
        if missing:
            raise UserError(
                f"the pairs table has no column {min(missing)}: it was written by another version "
                "of ulr; run `ulr pairs` again"
            )
        for group in range(content.num_row_groups) if groups is None else groups:
            batches = content.iter_batches(
                BATCH_QUERIES, row_groups=[group], columns=list(columns), use_threads=threads
            )
            for batch in batches:
                yield group, pa.Table.from_batches([batch]).select(list(columns)).cast(schema)
