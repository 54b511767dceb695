"""What tasks count in the groups of a window, for the estimators that need all pages.

A task reads the columns it needs of some files, and counts with numba. `files` are paths on the
filesystem of `url`. Groups need not be merged over dates, because counts add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.blocks import hash_parts, open_table, partition_blocks, table_bytes
from ulr.engine.columns import hashes, list_array, offsets_and_values, whole
from ulr.engine.interface import Batches, Blocks, Engine, Exchange, Items, partitions_for
from ulr.errors import InvalidData
from ulr.features.files import FeatureFiles
from ulr.features.matrix import feature_matrix
from ulr.features.shown import ShownQueries
from ulr.features.source import FeatureSource, Rows, feature_rows
from ulr.features.versions import in_own_order
from ulr.kernels.layout import Ragged
from ulr.kernels.merge import group_keys
from ulr.kernels.within_rankings import RankingSums
from ulr.propensity import tally
from ulr.propensity.daily.arms import ArmTally, sum_counts
from ulr.propensity.daily.tally import tally_arms
from ulr.propensity.document_pairs import REST, UNIT, Seen, pair_sums
from ulr.propensity.exposures import Exposures
from ulr.propensity.rankings import RankingTally, sum_rankings
from ulr.propensity.schema import HARVEST_SUMS, harvest_schema
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.storage import Storage

DOCUMENT = ["query_id", "doc_id"]
_SUMS = ["clicks", "impressions"]
_HELD_BYTES = 256 << 20  # of exposures in a task, before they are added up and sent
Parts = Callable[[pa.Table], np.ndarray]  # the part (int64) of each row


@dataclass(frozen=True)
class GroupFiles:
    """Files of groups on the filesystem of `url`: the day, a number from 0, and the path."""

    url: str
    files: Sequence[tuple[int, str]]

    @property
    def sizes(self) -> list[int]:
        """Bytes of each file."""
        return [file.size for file in Storage(self.url).stat([path for _, path in self.files])]

    def source(self) -> Items:
        """Return the files as items."""
        return Items(self.files, self.sizes)


def count_arms(engine: Engine, groups: GroupFiles, *, events: Sequence[str]) -> pa.Table:
    """Return `swap_counts_schema` of some events."""
    count = partial(_arm_rows, url=groups.url, events=events)
    return sum_counts([pa.Table.from_batches([b]) for b in engine.map(groups.source(), count)])


def _arm_rows(files: Sequence[tuple[int, str]], *, url: str, events: Sequence[str]) -> Batches:
    fs, _ = open_filesystem(url)
    arms = ArmTally()
    for _, path in files:
        tally_arms(fs, path, arms, events)
    yield from arms.rows().combine_chunks().to_batches()


def count_rankings(engine: Engine, groups: GroupFiles, counted: RankingTally) -> RankingSums:
    """Return the sums within rankings."""
    send = partial(_send_rankings, url=groups.url, counted=counted)
    add_up = partial(_add_rankings, size=counted.flat(counted.empty()).size)
    batches = engine.map(Exchange([(groups.source(), send)], 1), add_up)
    return counted.unflat(batches[0]["value"].to_numpy())


def _send_rankings(files: Sequence[tuple[int, str]], *, url: str, counted: RankingTally) -> Blocks:
    """Send the sums that are not 0 with their places."""
    values = sum_rankings([path for _, path in files], url=url, tally=counted)
    at = np.flatnonzero(values)
    yield 0, "sums", table_bytes(pa.table([pa.array(at), pa.array(values[at])], ["at", "value"]))


def _add_rankings(blocks: Blocks, *, size: int) -> Batches:
    total = np.zeros(size, np.int64)
    for _, _, content in blocks:
        sums = open_table(content)
        total[sums["at"].to_numpy()] += sums["value"].to_numpy()
    yield pa.RecordBatch.from_pydict({"value": total})


def exposures(
    groups: GroupFiles,
    keys: Sequence[str],
    *,
    max_position: int,
    parts: int,
    part_of: Parts | None = None,
    events: Sequence[str] = (),
    chosen: ShownQueries | None = None,
) -> Exchange:
    """Return clicks and impressions of documents by some keys, all those of a query in one part.

    keys: of `exposures_schema`, with query_id. part_of: by the hash of the query if None. events:
    that count as clicks; (): any. chosen: the queries to count; None: all. `sum_exposures` adds up
    what a part receives.
    """
    send = partial(
        _send_exposures,
        url=groups.url,
        keys=list(keys),
        max_position=max_position,
        part_of=part_of or partial(_part_by_hash, parts=parts),
        events=events,
        chosen=chosen,
    )
    return Exchange([(groups.source(), send)], parts)


def sum_exposures(tables: Iterable[pa.Table], keys: Sequence[str]) -> pa.Table:
    """Return the sums of exposures of equal keys."""
    sums = [(name, "sum") for name in _SUMS]
    total = pa.concat_tables(tables).group_by(list(keys)).aggregate(sums)
    return total.rename_columns([*keys, *_SUMS])


def _part_by_hash(table: pa.Table, *, parts: int) -> np.ndarray:
    return hash_parts(table["query_id"], parts)


def _send_exposures(
    files: Sequence[tuple[int, str]],
    *,
    url: str,
    keys: list[str],
    max_position: int,
    part_of: Parts,
    events: Sequence[str],
    chosen: ShownQueries | None,
) -> Blocks:
    held: list[pa.Table] = []
    for batch in tally.count_exposures(url, files, max_position, events):
        rows = pa.Table.from_batches([batch]).select([*keys, *_SUMS])
        if chosen is not None:
            rows = rows.filter(pa.array(chosen.contains(rows["query_id"])))
        held.append(rows)
        if sum(table.nbytes for table in held) >= _HELD_BYTES:
            held = [sum_exposures(held, keys)]
            if held[0].nbytes >= _HELD_BYTES // 2:  # most are distinct: adding up frees little
                yield from partition_blocks("exposures", held[0], part_of(held[0]))
                held = []
    if held:
        total = sum_exposures(held, keys)
        yield from partition_blocks("exposures", total, part_of(total))


def harvest_table(
    engine: Engine,
    groups: GroupFiles,
    *,
    max_position: int,
    blocks: int,
    weight: str,
    events: Sequence[str] = (),
) -> pa.Table:
    """Return position x position counts of documents seen at several positions: `harvest_schema`.

    A document with n impressions at k and m at l is one stratum. Its weight is n m / (n + m) for
    `pooled` (Mantel-Haenszel: a document shown once at l has little weight) and 1 for `document`
    (Agarwal et al. 2019).
    """
    shown = exposures(
        groups,
        ["segment", *DOCUMENT, "day", "position"],
        max_position=max_position,
        parts=partitions_for(sum(groups.sizes)),
        events=events,
    )
    batches = engine.map(shown, partial(_harvest_part, blocks=blocks, weight=weight))
    total = _sum_units([pa.Table.from_batches([batch]) for batch in batches])
    columns = [total[key] for key in harvest_schema.names[:4]]
    for name in HARVEST_SUMS:
        units, rest = (total[f"{name}_{part}"].to_numpy() for part in ("units", "rest"))
        columns.append(pa.array(units / UNIT + rest / (UNIT * REST)))
    return pa.table(columns, names=harvest_schema.names).cast(harvest_schema)


def _harvest_part(blocks_of_part: Blocks, *, blocks: int, weight: str) -> Batches:
    tables = (open_table(content) for _, _, content in blocks_of_part)
    seen = sum_exposures(tables, ["segment", *DOCUMENT, "day", "position"])
    sums = list(pair_sums(iter([_by_query(seen, blocks)]), weight=weight))
    if sums:
        yield from _sum_units([pa.Table.from_batches(sums)]).combine_chunks().to_batches()


def _sum_units(tables: Sequence[pa.Table]) -> pa.Table:
    """Add up `harvest_units_schema`, sorted by its keys, because segments are summed in order."""
    names = [f"{name}_{part}" for name in HARVEST_SUMS for part in ("units", "rest")]
    keys = harvest_schema.names[:4]
    if not tables:
        empty = [pa.nulls(0, harvest_schema.field(key).type) for key in keys]
        return pa.table([*empty, *(pa.nulls(0, pa.int64()) for _ in names)], [*keys, *names])
    total = pa.concat_tables(tables).group_by(keys).aggregate([(name, "sum") for name in names])
    total = total.rename_columns([*keys, *names])
    return total.sort_by([(key, "ascending") for key in keys])


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


def _block(query_ids: pa.Array | pa.ChunkedArray, blocks: int) -> np.ndarray:
    """Return the block of a query in a jackknife, int32."""
    return (hashes(query_ids).view(np.int64) % blocks).astype(np.int32)


def em_exposures(
    engine: Engine,
    groups: GroupFiles,
    *,
    max_position: int,
    queries: int,
    blocks: int,
    features: FeatureSource | None,
) -> Exposures:
    """Return the exposures of at most `queries` queries, sampled by hash, for regression-EM.

    features: None: documents have no features; by day: those of a document's latest day. Of
    several rows of a document the first counts. Documents without a row of features are ignored
    and counted: the mean in place of their relevance would bias theta.
    """
    sampled = _sample_queries(engine, groups, queries)
    parts = partitions_for(sum(groups.sizes))
    keys = [*DOCUMENT, "position"]
    shown = exposures(groups, keys, max_position=max_position, parts=parts, chosen=sampled)
    sends = list(shown.sends)
    shared = engine.share(sampled)
    if features is not None:
        sends.append(feature_rows(features, partial(_send_features, parts=parts), shown=shared))
    ordered = isinstance(features, FeatureFiles)
    join = partial(_join_exposures, with_features=features is not None, ordered=ordered)
    try:
        batches = engine.map(Exchange(sends, parts), join)
    finally:
        shared.close()
    every = pa.Table.from_batches(batches) if batches else None
    known = None if every is None else every.filter(every["known"]).combine_chunks()
    if every is None or known is None or not known.num_rows:
        raise InvalidData(
            f"regression_em: {features.where if features else 'the log'} has no row for any of the "
            "documents shown; give their features, or set regression_em.features=false"
        )
    known = known.sort_by([(name, "ascending") for name in DOCUMENT]).combine_chunks()
    offsets, position = offsets_and_values(known["position"])
    clicks, impressions = (offsets_and_values(known[name])[1].to_numpy() for name in _SUMS)
    ignored = every.filter(pc.invert(every["known"]))
    return Exposures(
        Ragged(offsets).owner(),
        position.to_numpy() - 1,
        clicks.astype(float),
        impressions.astype(float),
        _block(known["query_id"], blocks),
        feature_matrix(known) if features is not None else None,
        ignored.num_rows,
        float(offsets_and_values(ignored["impressions"])[1].to_numpy().sum()),
    )


def _sample_queries(engine: Engine, groups: GroupFiles, queries: int) -> ShownQueries:
    """Return the `queries` queries with the lowest hashes; the driver collects 8 bytes for each."""
    find = partial(_lowest_hashes, url=groups.url, queries=queries)
    found = [batch["hash"].to_numpy() for batch in engine.map(groups.source(), find)]
    keys = np.unique(np.concatenate([np.zeros(0, np.int64), *found]))[:queries]
    return ShownQueries.of([keys.view(np.uint64)])


def _lowest_hashes(files: Sequence[tuple[int, str]], *, url: str, queries: int) -> Batches:
    found = np.zeros(0, np.int64)
    for batch in tally.read_groups(url, [path for _, path in files], tally.EXPOSURE_COLUMNS):
        own = hashes(batch["query_id"]).view(np.int64)
        found = np.unique(np.concatenate([found, own]))[:queries]
    yield pa.RecordBatch.from_pydict({"hash": found})


def _send_features(rows: Rows, *, parts: int) -> Blocks:
    for order, table in rows:
        if table.num_rows:
            numbered = table.append_column("order", pa.array(np.full(table.num_rows, order)))
            part = hash_parts(table["query_id"], parts)
            yield from partition_blocks("features", numbered, part)


def _join_exposures(blocks: Blocks, *, with_features: bool, ordered: bool) -> Batches:
    """Yield a row per document: lists of its entries, and its features, if it is known.

    ordered: whether the rows of features have an order.
    """
    tables: dict[str, list[pa.Table]] = {"exposures": [], "features": []}
    for _, kind, content in blocks:
        tables[kind].append(open_table(content))
    if not tables["exposures"]:
        return
    keys = [*DOCUMENT, "position"]
    shown = sum_exposures(tables["exposures"], keys)
    shown = shown.sort_by([(key, "ascending") for key in keys]).combine_chunks()
    document, first = group_keys(hashes(shown["query_id"]), hashes(shown["doc_id"]))
    names = shown.select(DOCUMENT).take(pa.array(first))
    sizes = np.bincount(document, minlength=first.size)
    for name in ("position", *_SUMS):
        names = names.append_column(name, list_array(sizes, whole(shown[name])))
    if not with_features:
        known = pa.array(np.ones(first.size, bool))
        yield from names.append_column("known", known).combine_chunks().to_batches()
        return
    row, vectors = _first_features(names, tables["features"], ordered)
    names = names.append_column("known", pa.array(row >= 0))
    values = vectors.take(pa.array(row, mask=row < 0))
    yield from names.append_column("features", values).combine_chunks().to_batches()


def _first_features(
    documents: pa.Table, tables: Sequence[pa.Table], ordered: bool
) -> tuple[np.ndarray, pa.Array]:
    """Return the row (int64, -1 if there is none) and the vectors of features.

    It is the row of the latest day, if rows have a day, else the first in the order of the files.
    """
    missing = np.full(documents.num_rows, -1)
    if not tables:
        return missing, pa.nulls(0, pa.list_(pa.float32()))
    in_order = sorted(tables, key=lambda table: int(table["order"][0].as_py()))
    rows = pa.concat_tables(in_order)
    if not ordered:
        rows = in_own_order(rows)
    if "day" in rows.column_names:
        latest = np.argsort(-rows["day"].to_numpy().astype(np.int64), kind="stable")
        rows = rows.take(pa.array(latest))
    query, document = (
        np.concatenate([hashes(rows[name]), hashes(documents[name])]) for name in DOCUMENT
    )
    number, first = group_keys(query, document)
    found = first[number[rows.num_rows :]]
    return np.where(found < rows.num_rows, found, missing), whole(rows["features"])
