"""The counts of groups in memory: those of Spark's tasks, on Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.config.settings import Propensities
from ulr.engine.columns import hashes, list_array, whole
from ulr.errors import InvalidData, UserError
from ulr.features.matrix import feature_matrix
from ulr.kernels.merge import group_keys
from ulr.kernels.within_rankings import RankingSums
from ulr.propensity.daily.arms import ArmTally, cut_counts, sum_counts
from ulr.propensity.daily.moments import moment_table, sum_documents
from ulr.propensity.daily.tally import ROWS_PER_BATCH, tally_batches
from ulr.propensity.document_pairs import REST, UNIT, Seen, pair_sums
from ulr.propensity.estimate import NO_FEATURES
from ulr.propensity.exposures import Exposures
from ulr.propensity.rankings import RankingTally, add_batches
from ulr.propensity.schema import HARVEST_SUMS, harvest_schema, harvest_units_schema
from ulr.propensity.tally import exposure_batch

_DOCUMENT = ["query_id", "doc_id"]
_SUMS = [("clicks", "sum"), ("impressions", "sum")]


@dataclass(frozen=True)
class MemoryCounts:
    """The counts of the groups of some dates, in order. features: of documents, or None."""

    days: Sequence[pa.Table]
    features: pa.Table | None = None

    def swap_counts(self, max_position: int) -> pa.Table:
        """Return `swap_counts_schema` without deeper clicks."""
        arms, _ = self._tallies
        return cut_counts(sum_counts([arms.rows()]), max_position)

    def longest(self) -> int:
        """Return the number of documents of the longest page."""
        longest = [pc.max(pc.list_value_length(day["doc_ids"])).as_py() or 0 for day in self.days]
        return max(longest, default=0)

    def moments(self, blocks: int) -> pa.Table:
        """Return `moments_schema`."""
        _, documents = self._tallies
        return moment_table([sum_documents(documents, blocks)])

    def harvest(self, settings: Propensities) -> pa.Table:
        """Return `harvest_schema`."""
        keys = ["segment", *_DOCUMENT, "day", "position"]
        seen = self._exposures(settings.max_position, keys)
        blocks, weight = settings.harvest.blocks, settings.harvest.weight
        sums = pair_sums(iter([_by_query(seen, blocks)]), weight=weight)
        total = pa.Table.from_batches(list(sums), harvest_units_schema)
        return _harvest(total)

    def check_features(self, settings: Propensities) -> None:
        """Raise UserError unless there are features for regression-EM."""
        if self.features is None:
            raise UserError(NO_FEATURES)

    def exposures(self, settings: Propensities) -> Exposures:
        """Return the exposures of documents for regression-EM, of a sample of the queries."""
        em, blocks = settings.regression_em, settings.harvest.blocks
        every = self._exposures(settings.max_position, [*_DOCUMENT, "position"])
        every = every.filter(pa.array(_sampled(every["query_id"], em.queries)))
        documents = every.group_by(_DOCUMENT).aggregate([])
        if self.features is not None:
            known = self.features.select([*_DOCUMENT, "features"])
            first = _first_rows(known)
            rows = first.append_column("row", pa.array(np.arange(first.num_rows)))
            documents = documents.join(
                rows.select([*_DOCUMENT, "row"]), _DOCUMENT, join_type="inner"
            )
        if not documents.num_rows:
            raise InvalidData("features: no row for any of the documents shown")
        documents = documents.sort_by([(name, "ascending") for name in _DOCUMENT])
        number = documents.select(_DOCUMENT)
        number = number.append_column("n", pa.array(np.arange(documents.num_rows)))
        entries = every.join(number, _DOCUMENT, join_type="inner")
        ignored = every.join(number, _DOCUMENT, join_type="left anti")
        entries = entries.sort_by([("n", "ascending"), ("position", "ascending")])
        matrix = None
        if self.features is not None:
            matrix = feature_matrix(first.take(documents["row"]))
        return Exposures(
            entries["n"].to_numpy(),
            entries["position"].to_numpy() - 1,
            entries["clicks"].to_numpy().astype(float),
            entries["impressions"].to_numpy().astype(float),
            _block(documents["query_id"], blocks),
            matrix,
            ignored.group_by(_DOCUMENT).aggregate([]).num_rows,
            float(pc.sum(ignored["impressions"]).as_py() or 0),
        )

    def documents(self, max_position: int) -> pa.Table:
        """Return clicks and impressions by document, segment and position."""
        return self._exposures(max_position, [*_DOCUMENT, "segment", "position"])

    def rankings(self, tally: RankingTally) -> RankingSums:
        """Return the sums within displayed rankings."""
        return add_batches((batch for day in self.days for batch in _batches(day)), tally)

    @cached_property
    def _tallies(self) -> tuple[ArmTally, list[pa.Table]]:
        arms = ArmTally()
        return arms, [tally_batches(_batches(day), arms) for day in self.days]

    def _exposures(self, max_position: int, keys: list[str]) -> pa.Table:
        """Return clicks and impressions by the keys."""
        tables = [
            pa.Table.from_batches([exposure_batch(batch, number, max_position)])
            for number, day in enumerate(self.days)
            for batch in _batches(day)
        ]
        sums = pa.concat_tables(tables).group_by(keys).aggregate(_SUMS)
        return sums.rename_columns([*keys, "clicks", "impressions"])


def _batches(groups: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield batches as they are read from files: segment and bucket are dictionaries."""
    for name in ("segment", "bucket"):
        at = groups.schema.get_field_index(name)
        groups = groups.set_column(at, name, whole(groups[name]).dictionary_encode())
    yield from groups.combine_chunks().to_batches(ROWS_PER_BATCH)


def _block(query_ids: pa.ChunkedArray, blocks: int) -> np.ndarray:
    """Return the block of a query in a jackknife, int32; as Spark's pmod of xxhash64."""
    return (hashes(query_ids).view(np.int64) % blocks).astype(np.int32)


def _by_query(seen: pa.Table, blocks: int) -> pa.RecordBatch:
    """Return the batch that `pair_sums` takes: one row per query and segment."""
    segment = whole(seen["segment"]).dictionary_encode()
    code = segment.indices.fill_null(len(segment.dictionary)).to_numpy().astype(np.uint64)
    group, first = group_keys(hashes(seen["query_id"]), code)
    order = np.argsort(group, kind="stable")
    entries = seen.take(pa.array(order)).combine_chunks()
    fields = {name: whole(entries[name]) for name in Seen._fields[1:]}
    fields["document"] = pa.array(hashes(entries["doc_id"]).view(np.int64))
    structs = pa.StructArray.from_arrays(
        [fields[name] for name in Seen._fields], names=list(Seen._fields)
    )
    rows = seen.take(pa.array(first))
    columns = {
        "segment": whole(rows["segment"]),
        "block": pa.array(_block(rows["query_id"], blocks)),
        "seen": list_array(np.bincount(group, minlength=first.size), structs),
    }
    return pa.RecordBatch.from_pydict(columns)


def _harvest(units: pa.Table) -> pa.Table:
    keys = ["segment", "block", "k", "l"]
    parts = [f"{name}_{part}" for name in HARVEST_SUMS for part in ("units", "rest")]
    total = units.group_by(keys).aggregate([(name, "sum") for name in parts])
    total = total.sort_by([(key, "ascending") for key in keys])
    columns = [total[key] for key in keys]
    for name in HARVEST_SUMS:
        whole_units, rest = (total[f"{name}_{part}_sum"].to_numpy() for part in ("units", "rest"))
        columns.append(pa.array(whole_units / UNIT + rest / (UNIT * REST)))
    return pa.table(columns, names=harvest_schema.names).cast(harvest_schema)


def _sampled(query_ids: pa.ChunkedArray, queries: int) -> np.ndarray:
    """Return which rows are of the `queries` queries with the lowest hashes, as signed integers."""
    keys = hashes(query_ids).view(np.int64)
    return np.isin(keys, np.unique(keys)[:queries])


def _first_rows(features: pa.Table) -> pa.Table:
    """Return one row of features per document, the first of several."""
    _, first = group_keys(hashes(features["query_id"]), hashes(features["doc_id"]))
    if first.size == features.num_rows:
        return features
    return features.take(pa.array(first))
