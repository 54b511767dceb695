"""Rows of the table `window` as flat arrays: rankings with their clicks, documents, features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.columns import offsets_and_values, whole
from ulr.features.matrix import check_width
from ulr.kernels.layout import Histograms, Patterns, Ragged, offsets_of
from ulr.kernels.merge import group_keys, merge_patterns
from ulr.kernels.patterns import WORD, cut_patterns, select_levels

HISTOGRAMS = ["query_id", "segments", "group_sizes", "pattern_counts", "patterns", "counts"]


@dataclass(frozen=True)
class Window:
    """Queries with their groups, the distinct (segment, ranking) of a window, and their documents.

    query_ids   one per query
    query       int64 per group, the index of its query; ascending
    segment     name per group, null for none
    histograms  documents and click patterns of each group; with feedback, those of any event
    higher      patterns of the higher levels of feedback, one by one as those of `histograms`
    row_of      int64 per document of a group, its row
    query_rows  int64 offsets, queries + 1; a row is a distinct (query, document)
    names       document of each row
    labels      int32 per row, -1 if unknown
    feature_row int64 per row, its row of `matrix`; -1 without features
    matrix      float32, featured rows x features
    duplicates  feature rows that repeat a shown document
    too_deep    documents of groups that were cut off
    """

    query_ids: pa.Array
    query: np.ndarray
    segment: pa.Array
    histograms: Histograms
    row_of: np.ndarray
    query_rows: np.ndarray
    names: pa.Array
    labels: np.ndarray
    feature_row: np.ndarray
    matrix: np.ndarray
    duplicates: int = 0
    too_deep: int = 0
    higher: tuple[Patterns, ...] = ()

    @property
    def levels(self) -> list[Histograms]:
        """The histograms of every level of feedback, lowest first."""
        return levels_of(self.histograms, self.higher)

    @property
    def queries(self) -> int:
        """The number of queries."""
        return len(self.query_ids)

    def tables_of(self, segments: Mapping[str, int]) -> np.ndarray:
        """Return the number of each group's segment (int64), 0 if it is not in `segments`."""
        return tables_of(self.segment, segments)


def levels_of(histograms: Histograms, higher: Sequence[Patterns]) -> list[Histograms]:
    """Return the histograms of the lowest level, then those of the higher ones."""
    return [histograms, *(histograms._replace(patterns=patterns) for patterns in higher)]


def tables_of(names: pa.Array, segments: Mapping[str, int]) -> np.ndarray:
    """Return the number of each segment name (int64), 0 if it is not in `segments`."""
    table = np.zeros(len(names), np.int64)
    for name, number in segments.items():
        table[pc.equal(names, name).fill_null(False).to_numpy(zero_copy_only=False)] = number
    return table


def load_window(table: pa.Table, depth: int | None) -> Window:
    """Return the queries of a table with `window_schema`, lists cut at `depth` (None: not cut)."""
    group_offsets, sizes = offsets_and_values(table["group_sizes"])
    group_docs = offsets_of(sizes.to_numpy())
    doc_offsets, names = offsets_and_values(table["doc_ids"])
    _, doc_rows = offsets_and_values(table["doc_rows"])
    query = Ragged(group_offsets).owner()
    first_row = np.repeat(doc_offsets[query], np.diff(group_docs))
    matrix, feature_row = _features(table, doc_offsets)
    patterns, *higher = _patterns(table, np.diff(group_docs))
    window = Window(
        query_ids=whole(table["query_id"]),
        query=query,
        segment=offsets_and_values(table["segments"])[1],
        histograms=Histograms(group_docs, patterns),
        higher=tuple(higher),
        row_of=first_row + doc_rows.to_numpy(),
        query_rows=doc_offsets,
        names=names,
        labels=offsets_and_values(table["labels"])[1].fill_null(-1).to_numpy(),
        feature_row=feature_row,
        matrix=matrix,
        duplicates=int(table["duplicates"].to_numpy().sum()),
    )
    return window if depth is None else cut_window(window, depth)


def load_histograms(table: pa.Table, depth: int) -> tuple[list[Histograms], pa.Array]:
    """Return the patterns of all groups by level, cut at `depth`, and the segment of each group.

    table: at least the columns HISTOGRAMS of `window_schema`.
    """
    sizes = offsets_and_values(table["group_sizes"])[1].to_numpy()
    patterns, *higher = _patterns(table, sizes)
    histograms, higher = _cut_levels(Histograms(offsets_of(sizes), patterns), higher, depth)
    return levels_of(histograms, higher), offsets_and_values(table["segments"])[1]


def _patterns(table: pa.Table, sizes: np.ndarray) -> list[Patterns]:
    """Return the patterns of every level of feedback."""
    counts = offsets_and_values(table["pattern_counts"])[1].to_numpy().astype(np.int64)
    widths = (sizes + WORD - 1) // WORD
    words = offsets_and_values(table["patterns"])[1].to_numpy()
    levels = words.size // max(int((counts * widths).sum()), 1)
    patterns = Patterns(
        offsets_of(counts * widths * max(levels, 1)), words, offsets_of(counts),
        offsets_and_values(table["counts"])[1].to_numpy(),
    )  # fmt: skip
    if levels <= 1:
        return [patterns]
    return [select_levels(patterns, levels, np.array([level])) for level in range(levels)]


def _features(table: pa.Table, doc_offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the feature matrix, and the row of it for each document."""
    featured = table["featured"].to_numpy().astype(np.int64)
    offsets, values = offsets_and_values(table["features"])

    def name(i: int) -> str:
        return f"query {table['query_id'][int(has[i])]}"

    has = np.flatnonzero(featured)
    width = check_width(np.diff(offsets)[has], rows=featured[has], name=name)
    rows = Ragged(doc_offsets)
    has_features = rows.within() < np.repeat(featured, rows.lengths)
    feature_row = np.where(has_features, np.cumsum(has_features) - 1, -1)
    return values.to_numpy().reshape(int(featured.sum()), width), feature_row


def cut_window(window: Window, depth: int) -> Window:
    """Return the window with lists of at most `depth` documents.

    Rankings that become equal stay apart; patterns of a ranking that become equal are added up.
    """
    documents = Ragged(window.histograms.group_docs).within() < depth
    histograms, higher = _cut_levels(window.histograms, window.higher, depth)
    return replace(
        window,
        histograms=histograms,
        higher=tuple(higher),
        row_of=window.row_of[documents],
        too_deep=int((~documents).sum()),
    )


def _cut_levels(
    groups: Histograms, higher: Sequence[Patterns], depth: int
) -> tuple[Histograms, list[Patterns]]:
    """Return lists of at most `depth` documents, and their patterns of higher levels.

    With several levels, patterns that become equal stay apart: a pattern has one place in each.
    """
    sizes = groups.sizes
    if sizes.max(initial=0) <= depth:
        return groups, list(higher)
    cut = [cut_patterns(sizes, depth, patterns) for patterns in (groups.patterns, *higher)]
    if not higher:
        cut = [merge_patterns(np.arange(sizes.size), sizes.size, cut[0])]
    return Histograms(offsets_of(np.minimum(sizes, depth)), cut[0]), cut[1:]


def shown_rows(window: Window) -> Window:
    """Return the window with the rows that its groups show, in order of appearance."""
    query = np.repeat(window.query, window.histograms.sizes)
    row_of, first = group_keys(window.row_of.view(np.uint64), np.zeros(query.size, np.uint64))
    rows = window.row_of[first]
    return replace(
        window,
        row_of=row_of,
        query_rows=np.searchsorted(query[first], np.arange(window.queries + 1)),
        names=window.names.take(pa.array(rows)),
        labels=window.labels[rows],
        feature_row=window.feature_row[rows],
    )


def only_segment(window: Window, segment: str) -> Window:
    """Return the groups of one segment, and their queries with all rows."""
    chosen = tables_of(window.segment, {segment: 1}) == 1
    queries, query = np.unique(window.query[chosen], return_inverse=True)
    lengths = np.diff(window.query_rows)
    rows = np.repeat(np.isin(np.arange(window.queries), queries), lengths)
    documents = np.repeat(chosen, window.histograms.sizes)
    return replace(
        window,
        query_ids=window.query_ids.take(pa.array(queries)),
        query=query,
        segment=window.segment.filter(pa.array(chosen)),
        histograms=_take_groups(window.histograms, chosen),
        higher=tuple(_take_groups(own, chosen).patterns for own in window.levels[1:]),
        row_of=(np.cumsum(rows) - 1)[window.row_of[documents]],
        query_rows=offsets_of(lengths[queries]),
        names=window.names.filter(pa.array(rows)),
        labels=window.labels[rows],
        feature_row=window.feature_row[rows],
    )


def _take_groups(groups: Histograms, chosen: np.ndarray) -> Histograms:
    word_offsets, words, count_offsets, counts = groups.patterns
    word_lengths, count_lengths = np.diff(word_offsets), np.diff(count_offsets)
    patterns = Patterns(
        offsets_of(word_lengths[chosen]), words[np.repeat(chosen, word_lengths)],
        offsets_of(count_lengths[chosen]), counts[np.repeat(chosen, count_lengths)],
    )  # fmt: skip
    return Histograms(offsets_of(groups.sizes[chosen]), patterns)
