"""The Arrow schemas of all tables; `engine.spark.session` converts them to Spark's types.

The comment of a schema describes a row, its unique key, and how the table is partitioned and
sorted. `SCHEMA_VERSION` is part of every fingerprint: increase it when the meaning of a
column changes.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

SCHEMA_VERSION = 1

TIMESTAMP = pa.timestamp("us", tz="UTC")

# Input. One row per results page; session_id is unique; position = index in doc_ids + 1.
page_schema = pa.schema(
    [
        pa.field("session_id", pa.string()),
        pa.field("query_id", pa.string()),
        pa.field("shown_at", TIMESTAMP),
        pa.field("doc_ids", pa.list_(pa.string())),
        pa.field("clicks", pa.list_(pa.bool_())),
        pa.field("segment", pa.string()),
        pa.field("bucket", pa.string()),
        pa.field("swapped", pa.bool_()),
    ]
)

# Input. One row per shown document; (session_id, position) is unique, positions run from 1.
impression_schema = pa.schema(
    [
        pa.field("session_id", pa.string()),
        pa.field("query_id", pa.string()),
        pa.field("shown_at", TIMESTAMP),
        pa.field("doc_id", pa.string()),
        pa.field("position", pa.int32()),
        pa.field("clicked", pa.bool_()),
        pa.field("segment", pa.string()),
        pa.field("bucket", pa.string()),
        pa.field("swapped", pa.bool_()),
    ]
)

FEEDBACK, FEATURES, RANKER = "feedback", "features", "ranker"
OPTIONAL_COLUMNS = ("segment", "bucket", "swapped", FEEDBACK, FEATURES, RANKER)

# Further columns of both inputs, with their types per document.
#   feedback  with `log.feedback`: the events as one text: the name of an event, its level from 1,
#             or a JSON array of these; null, empty and 0: no event. Clicks are optional then
#   features  with `log.features`: the numbers that the ranker saw; null: none, for this document
_OF_DOCUMENTS = {FEEDBACK: pa.string(), FEATURES: pa.list_(pa.float32())}
# A page has one ranker, the name of the model that served it, or none.
_OF_PAGES = {RANKER: pa.string()}


def with_columns(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """Return an input schema with those further columns that are among some names."""
    by_page, chosen = "doc_ids" in schema.names, set(names)
    for name, kind in _OF_DOCUMENTS.items():
        if name in chosen:
            schema = schema.append(pa.field(name, pa.list_(kind) if by_page else kind))
    for name, kind in _OF_PAGES.items():
        if name in chosen:
            schema = schema.append(pa.field(name, kind))
    return schema


def graded(schema: pa.Schema) -> pa.Schema:
    """Return an input schema with the column `feedback`."""
    return with_columns(schema, [FEEDBACK])


def pages_of(names: Iterable[str]) -> pa.Schema:
    """Return `page_schema`, with those further columns that are among the names of some columns."""
    return with_columns(page_schema, names)


def recorded_of(names: Iterable[str]) -> pa.Schema:
    """Return the columns of pages that quarantine records: feedback if it is among the names."""
    return with_columns(page_schema, {FEEDBACK}.intersection(names))


# An input row before validation.
#   source   the file's path; dictionary-encoded within a task, since it repeats
#   problem  the reason recorded while reading the row, or null
#   raw      the source text of a row that could not be read
#   repeats  number of duplicate impression rows that were dropped
def reading(schema: pa.Schema, *, inside: bool = False) -> pa.Schema:
    """Return an input schema with the columns that readers add; inside: for use within a task."""
    source = pa.dictionary(pa.int32(), pa.string()) if inside else pa.string()
    return pa.schema(
        [
            *schema,
            pa.field("source", source),
            pa.field("problem", pa.string()),
            pa.field("raw", pa.string()),
            pa.field("repeats", pa.int32()),
        ]
    )


plain_read_schema = reading(page_schema)
read_schema = reading(page_schema, inside=True)


# One row per page (or unreadable row) that broke the contract, as it was read, with its reason.
# Partitioned by `dt`; sorted by source, reason, session_id.
def quarantine_schema_of(pages: pa.Schema) -> pa.Schema:
    """Return the schema of quarantined rows. pages: `page_schema`, with feedback if it is read."""
    reason, source = (
        pa.field("reason", pa.string(), nullable=False),
        pa.field("source", pa.string()),
    )
    return pa.schema([reason, source, *pages, pa.field("raw", pa.string())])


quarantine_schema = quarantine_schema_of(page_schema)

# One row per (query, segment, bucket, arm, shown ranking) of a date, with the histogram of its
# click patterns. Unique: (query_id, segment, bucket, swapped, ranking). Partitioned by `dt`; all
# rows of a query are in one file; sorted by the unique key, nulls last.
#   ranking   Spark's xxhash64(transform(doc_ids, d -> xxhash64(d)))
#   patterns  ceil(n / 64) words per distinct pattern, ascending; bit b of word w is the click at
#             position 64 w + b + 1. With L levels of feedback, L times as many words: those of
#             "level 1 or higher" first, those of level L last; the metadata of the file has the
#             names of the levels (groups/levels.py)
#   counts    sessions per pattern, in the order of `patterns`
groups_schema = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("segment", pa.string()),
        pa.field("bucket", pa.string()),
        pa.field("swapped", pa.bool_()),
        pa.field("ranking", pa.int64(), nullable=False),
        pa.field("doc_ids", pa.list_(pa.string()), nullable=False),
        pa.field("patterns", pa.list_(pa.int64()), nullable=False),
        pa.field("counts", pa.list_(pa.int64()), nullable=False),
    ]
)

# Input; `simulate` writes it too. Unique: (query_id, doc_id). All rows have the same number of
# features. `label` is golden relevance, for evaluation only.
features_schema = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("features", pa.list_(pa.float32()), nullable=False),
        pa.field("label", pa.int32()),
    ]
)

# Pages of a date by the ranker that served them: files `_rankers-*` beside the groups of a log that
# has the column. Unique: (query_id, ranker, segment, first_click). All rows of a query are in one
# file; sorted by the unique key, nulls last. Pages without a ranker are not counted.
#   first_click  position of the topmost click, 0 on pages without one
#   clicks       clicks on these pages, at any position
rankers_schema = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field(RANKER, pa.string(), nullable=False),
        pa.field("segment", pa.string()),
        pa.field("first_click", pa.int32(), nullable=False),
        pa.field("pages", pa.int64(), nullable=False),
        pa.field("clicks", pa.int64(), nullable=False),
    ]
)

# With `log.features`: one row per document that was shown on a date with features, with the last
# vector of the date. Unique: (query_id, doc_id). Partitioned by `dt`; all rows of a query are in
# one file; sorted by the unique key. The metadata of `features` has the names.
#   features  float32, NaN: missing value; all rows have the same number
#   shown_at  when the vector was last shown; of several vectors at this time it is the one with the
#             largest hash (clicklog/vectors.py)
#   pages     pages that showed this vector at this time
logged_features_schema = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("features", pa.list_(pa.float32()), nullable=False),
        pa.field("shown_at", TIMESTAMP, nullable=False),
        pa.field("pages", pa.int64(), nullable=False),
    ]
)

# One row per query that was shown in a window of dates, with everything that pairs and evaluation
# read. Unique: query_id. One folder per use; a query's partition is its hash modulo the number of
# partitions; sorted by query_id.
#   doc_ids       shown documents, and labelled documents that were not shown: first those with
#                 features, in the order of the features table, then those without
#   featured      number of documents with features
#   labels        golden relevance of each document, null if unknown
#   features      feature vectors of the first `featured` documents, concatenated
#   duplicates    feature rows of shown documents that repeat an earlier row; they are not used
#   segments, rankings, group_sizes   one entry per distinct (segment, ranking), sorted, nulls last:
#                 its segment, the hash of its ranking as in `groups`, and its number of documents
#   doc_rows      index in doc_ids of every document of every ranking, by position
#   pattern_counts, patterns, counts  click patterns of every ranking, summed over dates and arms:
#                 their number, their words and their sessions, as in `groups`; all have the
#                 same levels of feedback
window_schema = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("doc_ids", pa.list_(pa.string()), nullable=False),
        pa.field("featured", pa.int32(), nullable=False),
        pa.field("labels", pa.list_(pa.int32()), nullable=False),
        pa.field("features", pa.list_(pa.float32()), nullable=False),
        pa.field("duplicates", pa.int32(), nullable=False),
        pa.field("segments", pa.list_(pa.string()), nullable=False),
        pa.field("rankings", pa.list_(pa.int64()), nullable=False),
        pa.field("group_sizes", pa.list_(pa.int32()), nullable=False),
        pa.field("doc_rows", pa.list_(pa.int32()), nullable=False),
        pa.field("pattern_counts", pa.list_(pa.int32()), nullable=False),
        pa.field("patterns", pa.list_(pa.int64()), nullable=False),
        pa.field("counts", pa.list_(pa.int64()), nullable=False),
    ]
)

# One row per query that has a pair, with all data for training. Unique: query_id. One folder per
# method; sorted by query_id.
#   doc_ids      distinct documents of the query; each is one training row
#   labels       golden relevance of each document, null if unknown; for evaluation only
#   features     feature vectors of the documents, concatenated; all have the same length
#   group_sizes  documents in each list (one list per displayed ranking, or one for the query)
#   doc_rows     index in doc_ids of every document of every list
#   positions    position of each such document, from 1; 0 if it was shown at several positions
#   pair_counts  pairs in each list
#   pair_i, _j   the two documents of every pair, as 0-based indices in the list; i < j
#   u_ij, u_ji   weight of "i should be above j", and of the reverse; further weightings of the
#                same pairs are in columns u_ij_NAME and u_ji_NAME (pairs/weightings.py)
#   clicks       sessions of the list that clicked each document of doc_rows
pairs_schema = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("doc_ids", pa.list_(pa.string()), nullable=False),
        pa.field("labels", pa.list_(pa.int32()), nullable=False),
        pa.field("features", pa.list_(pa.float32()), nullable=False),
        pa.field("group_sizes", pa.list_(pa.int32()), nullable=False),
        pa.field("doc_rows", pa.list_(pa.int32()), nullable=False),
        pa.field("positions", pa.list_(pa.int32()), nullable=False),
        pa.field("pair_counts", pa.list_(pa.int32()), nullable=False),
        pa.field("pair_i", pa.list_(pa.int32()), nullable=False),
        pa.field("pair_j", pa.list_(pa.int32()), nullable=False),
        pa.field("u_ij", pa.list_(pa.float32()), nullable=False),
        pa.field("u_ji", pa.list_(pa.float32()), nullable=False),
        pa.field("clicks", pa.list_(pa.float32()), nullable=False),
    ]
)


def with_weights(columns: Iterable[str]) -> pa.Schema:
    """Return `pairs_schema` with further columns of weights."""
    weights = pa.list_(pa.float32())
    return pa.schema([*pairs_schema, *(pa.field(c, weights, nullable=False) for c in columns)])


# One metric of a published table or model. Unique: (subject, against, segment, position, name)
# within a stage. One folder per stage and subject; sorted by that key, nulls first.
#   subject   the method or the model; `logging` is the ranking that was shown
#   against   the baseline of a comparison, whose value is subject - against; else null
#   segment   null for all traffic
#   position  null for all positions
#   standard_error, lower, upper, queries   of an estimate: standard error and 95% interval,
#             clustered by query, and the number of queries
#   propensity_error   the part of standard_error that the error of the propensities causes
#   p_value   of a comparison, under the hypothesis that the two are equal
metrics_schema = pa.schema(
    [
        pa.field("stage", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("against", pa.string()),
        pa.field("segment", pa.string()),
        pa.field("position", pa.int32()),
        pa.field("name", pa.string(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("standard_error", pa.float64()),
        pa.field("lower", pa.float64()),
        pa.field("upper", pa.float64()),
        pa.field("p_value", pa.float64()),
        pa.field("queries", pa.int64()),
        pa.field("propensity_error", pa.float64()),
    ]
)

# A features table scored by a model. Unique: (query_id, doc_id). All rows of a query are in one
# file; sorted by query_id, rank. rank is from 1; only the order of the scores is meaningful.
scores_schema = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("score", pa.float64(), nullable=False),
    ]
)

# Ground truth of a simulation. One row per (segment, k, l), k <= l: psi(k, k) is theta(k).
# alpha and beta of P(click at k) = alpha R + beta are set on the rows with k = l only.
truth_examination_schema = pa.schema(
    [
        pa.field("segment", pa.string()),
        pa.field("k", pa.int32(), nullable=False),
        pa.field("l", pa.int32(), nullable=False),
        pa.field("psi", pa.float64(), nullable=False),
        pa.field("alpha", pa.float64()),
        pa.field("beta", pa.float64()),
    ]
)

# Ground truth of a simulation. Unique: (query_id, doc_id); `relevance` is P(r = 1).
truth_relevance_schema = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("label", pa.int32(), nullable=False),
        pa.field("relevance", pa.float64(), nullable=False),
    ]
)

# Number of sessions of a (segment, bucket, arm) of a date with clicks at both k and l, k <= l.
# Unique: all columns but the last. Zero counts are omitted. Partitioned by `dt`; sorted by the
# unique key, nulls last.
#   condition  only sessions that clicked this position; 0: all sessions; -1: sessions that clicked
#              every position of the bucket, in a shuffle positions 1 and 2
#   k, l       k = l: clicks at k; both 0: all sessions
#   bucket, swapped   null for pages in no experiment; shuffle:N: the pages of shuffles whose first
#              N documents, at least 2, are in random order (all N of a page in bucket `shuffle`)
swap_counts_schema = pa.schema(
    [
        pa.field("segment", pa.string()),
        pa.field("bucket", pa.string()),
        pa.field("swapped", pa.bool_()),
        pa.field("condition", pa.int32(), nullable=False),
        pa.field("k", pa.int32(), nullable=False),
        pa.field("l", pa.int32(), nullable=False),
        pa.field("sessions", pa.int64(), nullable=False),
    ]
)

# One row per (segment, bucket, query, document) on the pages of a date in buckets 1:k that were
# shown at position 1 or k: clicks and impressions at the two positions. Unique: the first four
# columns. Partitioned by `dt`; a file holds a range of `document`; sorted by document, segment,
# bucket, nulls last.
#   query      Spark's xxhash64(query_id)
#   document   XXH64 of doc_id, with the hash of its query as seed
swap_documents_schema = pa.schema(
    [
        pa.field("segment", pa.string()),
        pa.field("bucket", pa.string(), nullable=False),
        pa.field("query", pa.int64(), nullable=False),
        pa.field("document", pa.int64(), nullable=False),
        pa.field("first_clicks", pa.int64(), nullable=False),
        pa.field("first_impressions", pa.int64(), nullable=False),
        pa.field("second_clicks", pa.int64(), nullable=False),
        pa.field("second_impressions", pa.int64(), nullable=False),
    ]
)

# theta by position of every level of feedback, over all traffic; published if there is more than
# one. Unique: (level, position). Sorted by that key.
#   level     from 1, the lowest gain
#   event     name of the level
#   events    documents of all pages with this event or a higher one
#   theta, standard_error, lower, upper, support, source, note   as in `propensities`, before
#             smoothing and imputing
level_propensities_schema = pa.schema(
    [
        pa.field("level", pa.int32(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
        pa.field("events", pa.int64(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("theta", pa.float64()),
        pa.field("standard_error", pa.float64()),
        pa.field("lower", pa.float64()),
        pa.field("upper", pa.float64()),
        pa.field("support", pa.int64(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("note", pa.string(), nullable=False),
    ]
)

# theta by position. Unique: (segment, position); segment null: all traffic. Sorted by that key.
#   theta     relative to position 1; null if there is no estimate, for the reason in `note`
#   lower, upper  95% interval; standard_error of theta
#   support   number of clicks that the estimate is based on
#   source    estimated | harvested (from rank changes, on a curve that is otherwise from swaps) |
#             pooled (too little data of the segment here: all traffic and the segment's other
#             positions) | given (set by the user) | imputed (along the curve that the others fit) |
#             insufficient (no estimate)
#   alpha, beta   of P(click) = alpha R + beta, from the affine estimator only
#   theta_1   P(position 1 is examined), to which theta and psi are relative: as set, else of the
#             browsing model, else 1 (assumed)
#   stop_probability, continue_probability   phi and beta of users who stop after clicks, equal in
#             all rows; null unless the diagnostics found such users
#   click_model   affine (trust bias) | cascade (users stop after clicks), equal in all rows; null
#             if the diagnostics found neither
#   covariance    of log theta of this row with log theta of every row, in the order of the table;
#             null without an error
#   beta_covariance   of beta of this row with log theta of every row, then with beta of every row
propensities_schema = pa.schema(
    [
        pa.field("segment", pa.string()),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("theta", pa.float64()),
        pa.field("standard_error", pa.float64()),
        pa.field("lower", pa.float64()),
        pa.field("upper", pa.float64()),
        pa.field("support", pa.int64(), nullable=False),
        pa.field("estimator", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("note", pa.string(), nullable=False),
        pa.field("alpha", pa.float64()),
        pa.field("beta", pa.float64()),
        pa.field("theta_1", pa.float64()),
        pa.field("stop_probability", pa.float64()),
        pa.field("continue_probability", pa.float64()),
        pa.field("click_model", pa.string()),
        pa.field("covariance", pa.list_(pa.float64())),
        pa.field("beta_covariance", pa.list_(pa.float64())),
    ]
)

# psi by pair of positions, k < l. Unique: (segment, k, l). Sorted by that key. psi is projected
# onto the Frechet bounds of theta; the interval is that of the value before projection.
#   source    estimated | imputed (from the model named in `browsing`) | insufficient (no estimate)
#   kappa     co-click rate over the product of the click rates within rankings, over all traffic;
#             null if it was not needed. Its standard error is null where it is imputed.
#   covariance    of log psi relative to psi(1, 2) with that of every pair of the segment, in the
#             order of the table; null without an estimate. psi(1, 2) has the error of theta(2).
joint_propensities_schema = pa.schema(
    [
        pa.field("segment", pa.string()),
        pa.field("k", pa.int32(), nullable=False),
        pa.field("l", pa.int32(), nullable=False),
        pa.field("psi", pa.float64()),
        pa.field("standard_error", pa.float64()),
        pa.field("lower", pa.float64()),
        pa.field("upper", pa.float64()),
        pa.field("support", pa.int64(), nullable=False),
        pa.field("browsing", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("note", pa.string(), nullable=False),
        pa.field("kappa", pa.float64()),
        pa.field("kappa_standard_error", pa.float64()),
        pa.field("covariance", pa.list_(pa.float64())),
    ]
)

# One row per diagnostic test. Unique: (segment, check, subject). verdict: ok, note (an alarm
# that blocks no promotion by default), warning or refused.
diagnostics_schema = pa.schema(
    [
        pa.field("segment", pa.string()),
        pa.field("check", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("p_value", pa.float64()),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
    ]
)
